// A tensor: a counted handle to storage, shape, type, history and mark.
//
// Copies of a handle are cheap and refer to one tensor: all see the same history and the same gradient. A handle
// belongs to one thread at a time, a tensor to any number. It may outlive its Imperative, whose memory then stays
// allocated. Tested by tests/imperative/imperative_test.cc
#pragma once

#include "imperative/tape/storage.h"
#include "ir/tensor/tensor.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

#include <string>

namespace gradc {

struct TapeNode;
struct Mark;
class Engine;

/// Bits of TensorImpl::tracked: by any leaf; by a leaf that requires its gradient outside of scopes too.
enum : uint8_t { kTracked = 1, kTrackedByLeaf = 2 };

struct TensorImpl {
  std::atomic<uint32_t> refs{1};
  DType dtype;
  uint8_t tracked = 0;
  uint16_t output = 0;  // of the producer
  ShapeId shape;
  uint32_t rank : 30;
  uint32_t isDerived : 1 = 0;  // the producer only says how a backward made it, for graphs, unless it was overwritten
  uint32_t isCountedLeaf : 1 = 0;  // Store::setLeaf
  const int64_t *dims;             // in the store's table, with a reference
  Store *store;
  Storage *storage;              // null: a shape and type without contents
  TapeNode *producer = nullptr;  // null: a leaf, or untracked
  Mark *mark = nullptr;

  Dims shapeDims() const { return {dims, rank}; }
  TensorRef ref() const { return {storage->data, dtype, shapeDims()}; }
};
static_assert(sizeof(TensorImpl) <= 64, "one block of the smallest class");

/// Counts the tensor as a marked leaf, or no more. With the lock held.
inline void countLeaf(TensorImpl &impl, bool isLeaf) {
  if (impl.isCountedLeaf == isLeaf) return;
  impl.isCountedLeaf = isLeaf;
  impl.store->setLeaf(*impl.storage, isLeaf);
}

/// What a tensor was marked with: a request, its gradient, a name. The tape refers to a tensor that no recorded call
/// made as its mark.
struct Mark {
  std::atomic<uint32_t> refs{1};
  Request request = Request::Null;
  bool isMarked = false;         // it gets a gradient
  bool isByLeaf = false;         // marked by requiresGrad
  bool isFresh = false;          // REQ-07: a gradient arrived since the host last looked
  bool isCallersBuffer = false;  // the gradient is a buffer of the caller, which receives the values
  bool isListed = false;         // in RecordedGradients
  DType dtype;
  ShapeId shape;
  const int64_t *dims;            // with a reference
  uint32_t epoch = 0, index = 0;  // place among what a backward collects
  Store *store;
  TensorImpl *grad = nullptr;
  Storage *hooks = nullptr;                  // without bytes; it releases a HookList (imperative/hooks.h)
  std::atomic<TensorImpl *> owner{nullptr};  // the leaf, once it has hooks that are called with it; not a reference
  Mark *nextDoomed = nullptr;                // during destruction
  std::string name;
};

/// For writes that others may observe without the lock.
inline void setTrackedBits(TensorImpl &impl, uint8_t bits) {
  std::atomic_ref(impl.tracked).store(bits, std::memory_order_relaxed);
}

/// "tensor 'w'", "a tensor of shape (2,3)"
std::string describe(const TensorImpl &impl);
/// Counts the memory of a long name. With the lock held.
void setName(Mark &mark, llvm::StringRef name);

/// Frees what the last owner has released.
void destroy(TensorImpl *impl);
void destroy(Mark *mark);

inline void retain(TensorImpl *impl) { impl->refs.fetch_add(1, std::memory_order_relaxed); }
inline void release(TensorImpl *impl) {
  if (impl->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(impl);
}
inline void retain(Mark *mark) { mark->refs.fetch_add(1, std::memory_order_relaxed); }
inline void release(Mark *mark) {
  if (mark->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(mark);
}

class Tensor {
 public:
  Tensor() = default;  // no tensor
  Tensor(const Tensor &other) : impl(other.impl) {
    if (impl) retain(impl);
  }
  Tensor(Tensor &&other) noexcept : impl(std::exchange(other.impl, nullptr)) {}
  Tensor &operator=(Tensor other) noexcept {
    std::swap(impl, other.impl);
    return *this;
  }
  ~Tensor() {
    if (impl) release(impl);
  }

  explicit operator bool() const { return impl != nullptr; }
  /// The same tensor, not equal values.
  friend bool operator==(const Tensor &a, const Tensor &b) { return a.impl == b.impl; }

  Dims shape() const { return impl->shapeDims(); }
  DType dtype() const { return impl->dtype; }
  int64_t size() const { return ref().size(); }
  /// The memory itself. Call Imperative::willWrite before writing to it.
  TensorRef ref() const { return impl->ref(); }
  /// Its elements; null for no tensor and for another element type. float16 and bfloat16 are uint16_t, bool is uint8_t.
  template <class T> T *data() const { return holds<T>() ? ref().as<T>() : nullptr; }
  /// Empty where `data` is null.
  template <class T> llvm::ArrayRef<T> values() const {
    return holds<T>() ? llvm::ArrayRef<T>(data<T>(), static_cast<size_t>(size())) : llvm::ArrayRef<T>();
  }
  /// The same with the reason: BadType for no tensor, BindingMismatch for another element type.
  template <class T> llvm::Expected<llvm::ArrayRef<T>> read() const {
    if (llvm::Error error = holds<T>() ? llvm::Error::success() : unreadable(elementName<T>())) return error;
    return values<T>();
  }
  /// The number of writes to its memory so far, through any tensor that shares it.
  uint32_t version() const { return impl->storage->version.load(std::memory_order_relaxed); }
  bool sharesMemoryWith(const Tensor &other) const { return impl->storage == other.impl->storage; }

  /// Whether gradients flow to it: a marked leaf, or computed from one while that was recorded.
  bool isTracked() const { return trackedBits() != 0; }
  bool isLeaf() const;
  bool requiresGrad() const { return (trackedBits() & kTrackedByLeaf) != 0; }
  /// No tensor: none arrived, or none is requested.
  Tensor grad() const;
  Request gradRequest() const;
  /// REQ-07: whether a backward delivered a gradient since `setFresh(false)`.
  bool isFresh() const;
  void setFresh(bool isFresh) const;
  /// Empty for a tensor without name.
  std::string name() const;

  /// Takes over one reference.
  static Tensor adopt(TensorImpl *impl) {
    Tensor tensor;
    tensor.impl = impl;
    return tensor;
  }
  static Tensor share(TensorImpl *impl) {
    if (impl) retain(impl);
    return adopt(impl);
  }
  TensorImpl *get() const { return impl; }
  TensorImpl *take() { return std::exchange(impl, nullptr); }

 private:
  /// Without the lock, while another thread may mark the tensor or give it a history.
  uint8_t trackedBits() const { return std::atomic_ref(impl->tracked).load(std::memory_order_relaxed); }
  template <class T> bool holds() const {
    if (!impl) return false;
    switch (impl->dtype) {
      case DType::Float32: return std::is_same_v<T, float>;
      case DType::Float64: return std::is_same_v<T, double>;
      case DType::Float16:
      case DType::BFloat16: return std::is_same_v<T, uint16_t>;
      case DType::Int32: return std::is_same_v<T, int32_t>;
      case DType::Int64: return std::is_same_v<T, int64_t>;
      case DType::Int8: return std::is_same_v<T, int8_t>;
      case DType::UInt8:
      case DType::Bool: return std::is_same_v<T, uint8_t>;
      default: return sizeof(T) == dtypeBytes(impl->dtype) && std::is_integral_v<T>;
    }
  }
  template <class T> static const char *elementName() {
    if constexpr (std::is_same_v<T, float>) return "float32";
    else if constexpr (std::is_same_v<T, double>) return "float64";
    else if constexpr (std::is_same_v<T, int32_t>) return "int32";
    else if constexpr (std::is_same_v<T, int64_t>) return "int64";
    else if constexpr (std::is_same_v<T, int8_t>) return "int8";
    else return sizeof(T) == 1 ? "uint8" : "float16 or bfloat16";
  }
  llvm::Error unreadable(const char *expected) const;

  TensorImpl *impl = nullptr;
};

/// The leaf that a mark with hooks belongs to; no tensor once the host has released it. Requires the lock.
Tensor ownerOf(const Mark &mark);

/// A list of tensors of which some may be missing.
using Tensors = llvm::ArrayRef<Tensor>;
/// Allocates for more tensors than these.
using TensorList = llvm::SmallVector<Tensor, 8>;

/// Tensors of an option, owned by the option.
struct OwnedTensors : TensorList {
  OwnedTensors() = default;
  OwnedTensors(Tensors list) : TensorList(list.begin(), list.end()) {}
  OwnedTensors(std::initializer_list<Tensor> list) : TensorList(list) {}
  OwnedTensors(const Tensor &tensor) : TensorList(1, tensor) {}
  OwnedTensors(const std::vector<Tensor> &list) : OwnedTensors(Tensors(list)) {}
  template <unsigned N> OwnedTensors(const llvm::SmallVector<Tensor, N> &list) : OwnedTensors(Tensors(list)) {}
  template <size_t N> OwnedTensors(const Tensor (&list)[N]) : OwnedTensors(Tensors(list)) {}
};

}  // namespace gradc
