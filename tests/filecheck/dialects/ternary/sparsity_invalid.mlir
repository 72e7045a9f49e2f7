// RUN: triton-opt %s --verify-diagnostics --split-input-file
// Sparsity facts that cannot be facts.

// expected-error @+1 {{'ternary.sparsity' expects two block sizes of at least 1, got [4, 0]}}
module attributes {a = #ternary.sparsity<2 : i64, array<i64: 0>, array<i64>, array<i64: 4, 0>, "0">} {}

// -----

// expected-error @+1 {{'ternary.sparsity' expects two block sizes of at least 1, got [4]}}
module attributes {a = #ternary.sparsity<2 : i64, array<i64>, array<i64>, array<i64: 4>, "0">} {}

// -----

// expected-error @+1 {{'ternary.sparsity' expects zero blocks as lower-case hexadecimal, got 'zz'}}
module attributes {a = #ternary.sparsity<2 : i64, array<i64>, array<i64>, array<i64: 4, 4>, "zz">} {}
