// RUN: triton-opt %s --split-input-file | filecheck %s
// The store of a module is named in the text and opened when a parameter is read.

// CHECK: builtin.module attributes {tensor.parameters = #tensor.store<"sub/w.safetensors", sha256 = "00ff">} {
module attributes {tensor.parameters = #tensor.store<"sub/w.safetensors", sha256 = "00FF">} {
}

// -----

// CHECK: builtin.module attributes {tensor.parameters = #tensor.store<unsaved>} {
module attributes {tensor.parameters = #tensor.store<unsaved>} {
}
