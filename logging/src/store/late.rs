//! A disk that begins at its first operation, unless it is begun before. A program whose log stays in memory has no thread of
//! it: the C library puts blocks of threads into the program's heap, with addresses that differ in
//! each life.

use super::disk::{DiskError, DiskOptions, DiskStore};
use super::{Completion, Operation, Store, StoreError};
use std::collections::VecDeque;
use std::io;

/// A [`DiskStore`] that begins at its first operation. If it cannot, that operation fails, and the
/// next one tries again.
#[derive(Debug)]
pub struct LateStore {
    options: DiskOptions,
    store: Option<DiskStore>,
    failed: VecDeque<Completion>,
}

impl LateStore {
    /// Nothing is opened or started.
    pub fn new(options: DiskOptions) -> Self {
        Self {
            options,
            store: None,
            failed: VecDeque::new(),
        }
    }

    /// Begins now.
    ///
    /// # Errors
    /// As [`DiskStore::new`].
    pub fn begin(&mut self) -> Result<&mut DiskStore, DiskError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => DiskStore::new(self.options.clone())?,
        };
        Ok(self.store.insert(store))
    }
}

fn fail(operation: Operation, error: StoreError) -> Completion {
    match operation {
        Operation::Open { file, .. } => Completion::Opened {
            file,
            result: Err(error),
        },
        Operation::Write { file, chunk, .. } => Completion::Written {
            file,
            chunk,
            result: Err(error),
        },
        Operation::Read { file, token, .. } => Completion::Read {
            token,
            file,
            result: Err(error),
        },
        Operation::Delete { file } => Completion::Deleted {
            file,
            result: Err(error),
        },
    }
}

impl Store for LateStore {
    fn submit(&mut self, operation: Operation) {
        match self.begin() {
            Ok(store) => store.submit(operation),
            Err(error) => {
                let error = StoreError {
                    attempted: "begin to write the log".into(),
                    error: io::Error::other(error.to_string()),
                };
                self.failed.push_back(fail(operation, error));
            }
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        let failed = self.failed.pop_front();
        failed.or_else(|| self.store.as_mut()?.poll())
    }

    fn describe(&self) -> String {
        match &self.store {
            Some(store) => store.describe(),
            None => "begun when memory is short".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileNumber;
    use super::*;
    use std::fs;

    // LOG-3
    #[test]
    fn nothing_is_begun_before_the_first_operation_which_tells_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let mut store = LateStore::new(DiskOptions::new(&gone, "test-", 7));
        assert!(store.poll().is_none());
        assert_eq!(store.describe(), "begun when memory is short");
        let file = FileNumber(0);
        store.submit(Operation::Delete { file });
        let Some(Completion::Deleted {
            result: Err(error), ..
        }) = store.poll()
        else {
            panic!("the folder does not exist");
        };
        assert!(error.to_string().contains("gone"), "{error}");
        fs::create_dir(&gone).unwrap();
        store.submit(Operation::Delete { file });
        assert_ne!(store.describe(), "begun when memory is short");
    }
}
