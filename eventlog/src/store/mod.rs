//! Files of batches: appended by many ranks, synced in groups, read back.
