// The marks of tensors, by MXNet's rules and by PyTorch's, and the gradients in them. The functions of Imperative of
// the same names hold the lock for these. Tested by tests/imperative/imperative_marks_test.cc
#pragma once

#include "imperative/tape/tensor.h"

#include "ir/base/dense_map.h"
#include "llvm/ADT/SetVector.h"

namespace gradc {

/// Marks whose gradient is a buffer of the caller's, by the address of its memory.
class BufferMarks {
 public:
  BufferMarks() = default;
  BufferMarks(const BufferMarks &) = delete;
  ~BufferMarks();
  void add(const Storage &buffer, Mark &mark);
  /// REQ-09: whether another mark puts its gradient there, unless both add to all of it, in one type.
  bool isRefused(const Storage &buffer, Mark &mark, Request request);
  size_t size() const { return number; }
  size_t heapBytes() const;

 private:
  using List = llvm::SetVector<Mark *, llvm::SmallVector<Mark *, 4>, DenseSet<Mark *>, 4>;
  void dropLast(List &list);
  /// Whether the buffer of another mark has some of these bytes, but not the same ones.
  bool hasPartOf(const Storage &buffer, const Mark &mark) const;

  DenseMap<const char *, List> lists;
  size_t number = 0, limit = 16;  // at this number, marks without other references are dropped
};

/// Marks whose gradient has a history. The history refers to the leaf, so leaf and gradient keep each other alive until
/// the gradient is replaced, or until the end of the Imperative, which removes the histories.
class RecordedGradients {
 public:
  RecordedGradients() = default;
  RecordedGradients(const RecordedGradients &) = delete;
  ~RecordedGradients();
  void add(Mark &mark);
  /// The next ones to be added need no memory.
  void reserve(size_t number) { marks.reserve(marks.size() + number); }
  size_t heapBytes() const { return heapBytesOf(marks); }

 private:
  std::vector<Mark *> marks;
  size_t limit = 16;  // at this size, marks without such a gradient are dropped
};

/// The mark of a tensor, made if there is none. The call of a computed tensor is linked to it, for the delivery of its
/// gradient and for hooks; tensors that are the same output of a call have one mark.
llvm::Expected<Mark *> tiedMarkOf(Engine &engine, TensorImpl &x);
llvm::Error mark(Engine &engine, const Tensor &x, Request request, const Tensor &buffer);
llvm::Error requireGrad(Engine &engine, const Tensor &x, bool on);
llvm::Error retainGrad(Engine &engine, const Tensor &x);
llvm::Error dropGrad(Engine &engine, const Tensor &x);
llvm::Error setGrad(Engine &engine, const Tensor &x, const Tensor &grad);
llvm::Error clearGrad(Engine &engine, const Tensor &x);

/// If the mark requests `add`, replaces a recorded gradient by its recorded sum with `before`.
llvm::Error addRecorded(Engine &engine, const Mark &mark, Tensor &gradient, const Tensor &before);
/// Delivers a gradient to a mark that was not dropped; `isRecorded`: the gradient has a history, and is the sum
/// already.
void deliver(Engine &engine, Mark &mark, Tensor gradient, bool isRecorded);

}  // namespace gradc
