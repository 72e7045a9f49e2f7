// RUN: triton-opt %s -p 'choose-folding{folding="fc_weight:pe=1,simd=2"}' | filecheck %s
// RUN: triton-opt %s -p 'choose-folding{folding="fc_weight:digit=2"}' | filecheck %s --check-prefix=DIGIT
// RUN: triton-opt %s -p 'choose-folding{folding="fc_weight:digit=2"},convert-ternary-to-hw' | filecheck %s --check-prefix=HARDWARE
// RUN: not triton-opt %s -p 'choose-folding{folding="fc_weight:pe=3,simd=2"}' 2>&1 | filecheck %s --check-prefix=LARGE
// RUN: not triton-opt %s -p 'choose-folding{folding="fc"}' 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not triton-opt %s -p 'choose-folding{lut-budget=1}' 2>&1 | filecheck %s --check-prefix=BUDGET

builtin.module @net {
func.func @forward(%x: tensor<?x4xi8>) -> tensor<?x2xi32> {
  %fc_weight = ternary.constant [1, 0, -1, 1, 0, 1, 1, -1] : tensor<4x2x!ternary.trit>
  %fc = ternary.linear %x, %fc_weight {activation = "relu"} : tensor<?x4xi8>, tensor<4x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %fc : tensor<?x2xi32>
}
}
// CHECK: verilog.folding = {
// CHECK-SAME: form = "folded", inputs = 4 : i64, outputs = 2 : i64, pe = 1 : i64, simd = 2 : i64
// CHECK-SAME: cycles = 4 : i64
// CHECK: %[[P:.*]] = ternary.matmul %x, %fc_weight
// CHECK-SAME: verilog.form = {kind = "folded", pe = 1 : i64, simd = 2 : i64}
// CHECK: %fc = tensor.relu %[[P]]

// DIGIT: ternary.matmul
// DIGIT-SAME: verilog.form = {kind = "serial", digit = 2 : i64}

// HARDWARE: initiation_interval\22: 5,
// HARDWARE: hw.module @net_fc_weight(in %clock: !seq.clock, in %reset: i1, in %in_data: i32
// HARDWARE: hw.module @net(in %aclk: !seq.clock

// LARGE: layer 'fc_weight': a product 4x2 takes pe in [1, 2] and simd in [1, 4], got pe=3,simd=2
// TEXT: folding expects LAYER:unrolled, LAYER:digit=D or LAYER:pe=P,simd=S
// BUDGET: lut-budget=1 is too small: the circuit takes
