//! Messages and elements of algorithms, against the formulas of the literature.
