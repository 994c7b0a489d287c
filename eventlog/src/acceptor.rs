//! What a logger accepts, and of whom: pure, and the same in the server, the
//! simulator and the model checker.
//!
//! Per (job, rank) it knows the latest incarnation, how far the row of
//! determinants reaches, and from where on it is still kept. A batch is taken if
//! it is of that incarnation and goes on where the row ends; one that the row
//! has already is taken again without effect (GATE-3: sending again is
//! idempotent); anything else is refused. A hello with a higher incarnation
//! fences all before it (FENCE-1): the first batch of the new life may begin
//! below the end of the row, which is cut there, since what a dead life wrote
//! beyond what its successor has recovered was never stable.
