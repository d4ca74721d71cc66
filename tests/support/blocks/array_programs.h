// Programs with arrays of tensors, built operator by operator.
#pragma once

#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/backward/append_backward.h"
#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/program/block_attrs.h"

namespace gradc::testing {

/// A program with a parameter `p`.
struct ArrayProgram {
  explicit ArrayProgram(llvm::SmallVector<int64_t, 4> shape = {2}) {
    addBlock(program, std::nullopt, {});
    declare("p", std::move(shape)).isParameter = true;
    program.parameters.push_back({program.intern("p"), true});
  }

  BlockVariable &declare(const std::string &name, llvm::SmallVector<int64_t, 4> shape = {2},
                         FluidType type = FluidType::Fp64, FluidType kind = FluidType::LodTensor, uint32_t block = 0) {
    program.addVariable(block, {program.intern(name), kind, type, std::move(shape), 0});
    BlockVariable &variable = *program.find(block, program.texts.find(name));
    variable.stopsGradient = !isFloating(dtypeOf(type));
    return variable;
  }
  void op(llvm::StringRef type, const SlotNames &in, const std::string &out, llvm::ArrayRef<AttrText> attrs = {},
          uint32_t block = 0) {
    addOp(program, block, type, in, {{"Out", {out}}}).attrs = context.attrs(attrs);
  }
  void number(const std::string &name, double value) {
    declare(name, {1}, FluidType::Int64);
    op("fill_constant", {}, name,
       {{"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64))},
        {"shape", intsAttrText(AttrTag::Longs, {1})},
        {"value", floatAttrText(AttrTag::Float, value)}});
  }
  void array(const std::string &name, llvm::SmallVector<int64_t, 4> shape = {2}) {
    declare(name, std::move(shape), FluidType::Fp64, FluidType::LodTensorArray);
  }

  /// Sums every element of `of`.
  void sum(const std::string &of, const std::string &to) {
    declare(to, {});
    op("reduce_sum", {{"X", {of}}}, to, {{"reduce_all", boolAttrText(true)}});
  }

  /// Runs a program with drawn values, and returns the heads.
  llvm::Expected<std::vector<Array>> run(const BlockProgram &of, std::vector<std::string> heads,
                                         int64_t maxIterations = 4);

  TestContext context;
  BlockProgram program;
};

/// Why the program does not run, or "success".
std::string failureOf(ArrayProgram &p, std::vector<std::string> heads);

std::vector<double> doubles(const Array &array);

/// a[0] = p; for (i = 0; i < 3;) { h = tanh(a[i] · p); i = i + 1; a[i] = h }; last = a[i]; loss: its mean
void addLoop(ArrayProgram &p);

/// The program with the gradient of `loss`.
llvm::Expected<FluidResult> emit(ArrayProgram &p);
/// The distance of p@GRAD in `emitted` from the central differences of `loss`.
double worstDifference(ArrayProgram &p, const BlockProgram &emitted);
/// Compares p@GRAD of that program with central differences of `loss`; returns whether the gradients of elements are
/// added up, which is not Paddle's form.
bool isAddedUp(ArrayProgram &p);

}  // namespace gradc::testing
