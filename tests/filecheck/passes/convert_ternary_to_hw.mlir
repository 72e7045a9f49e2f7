// RUN: triton-opt %s -p 'convert-ternary-to-hw{input-bits=4}' | filecheck %s
// RUN: not triton-opt %s -p 'convert-ternary-to-hw{pipeline=-1}' 2>&1 | filecheck %s --check-prefix=PIPELINE

builtin.module @net {
func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x1xf32> {
  %y = ternary.adder_graph %x {ternary.weight = "fc1.weight", inputs = 2 : i64, nodes = array<i64: 0, 1, -1, 0>, outputs = array<i64: 2, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  %s = tensor.constant dense<0.5> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i32>
  %f = tensor.dequantize %y, %s, %z : (tensor<?x1xi32>, tensor<f32>, tensor<i32>) -> tensor<?x1xf32>
  func.return %f : tensor<?x1xf32>
}
}
// CHECK: verilog.interface = "{
// CHECK-SAME: latency_cycles\22: 1,
// CHECK: hw.module @net_core(in %clock: !seq.clock, in %enable: i1, in %x: i8, out y: i5)
// CHECK: %[[A:.*]] = comb.extract %x from 0
// CHECK: %[[B:.*]] = comb.extract %x from 4
// CHECK: %[[D:.*]] = comb.sub
// CHECK-SAME: sv.namehint = "fc1_acc_0"
// CHECK: seq.compreg
// CHECK: hw.module @net(in %aclk: !seq.clock, in %aresetn: i1, in %s_axis_tdata: i8,
// CHECK-SAME: out m_axis_tdata: i8
// CHECK: hw.instance "core" @net_core(

// PIPELINE: convert-ternary-to-hw expects pipeline of 0 or more, got -1
