// RUN: triton-opt %s --verify-diagnostics --split-input-file
// Text from strangers must not reach files outside its own folder.

// expected-error @+1 {{parameter file '../w.safetensors' must be a relative path inside the folder of the IR file}}
module attributes {tensor.parameters = #tensor.store<"../w.safetensors", sha256 = "00">} {}

// -----

// expected-error @+1 {{parameter file '/etc/passwd' must be a relative path}}
module attributes {tensor.parameters = #tensor.store<"/etc/passwd", sha256 = "00">} {}

// -----

// expected-error @+1 {{string literal expected SHA-256 of the file}}
module attributes {tensor.parameters = #tensor.store<"w.safetensors", sha256 = >} {}
