//! Tests of options and dialects.
