// Explains why a backward was compiled again, to help tune programs: reads keys back word by word.
// Tested by tests/imperative/memory/imperative_cache_test.cc
#include "imperative/engine.h"

#include "runtime/executor/bindings.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// Where the parts of a key begin: BackwardRequest::encode, then Collected::encode.
class KeyReader {
 public:
  KeyReader(ArrayRef<uint32_t> key, const SignatureTable &signatures) : key(key) {
    size_t at = 2;                                           // policies
    at += 1 + 2 * key[at];                                   // heads
    for (int list = 0; list < 4; ++list) at += 1 + key[at];  // wrt, retained, noGrad, taps
    requestEnd = at;
    for (int list = 0; list < 2; ++list) at += 1 + 2 * key[at];  // types of leaves and others
    typesEnd = at;
    for (; at < key.size(); at += wordsOf(*signatures.findById(key[at]))) calls.push_back(at);
  }

  static size_t wordsOf(const Signature &signature) {
    return 1 + signature.numInputs() + signature.handle->op->flags.isBackward;
  }

  ArrayRef<uint32_t> key;
  size_t requestEnd = 0, typesEnd = 0;
  std::vector<size_t> calls;
};

std::string textOf(const Signature &signature, const TapeShapes &shapes) {
  std::string text = ("'" + signature.handle->spelling + "' on ").str();
  for (size_t i = 0; i < signature.numInputs(); ++i)
    text += (i ? ", " : "") + describeTensor(shapes[signature.inputs[i].shape], signature.inputs[i].dtype);
  return text + (signature.isTraining ? ", in training" : "");
}

}  // namespace

std::string Engine::explainMiss() const {
  const std::optional<PlanCache::Miss> miss = plans.lastMiss();
  if (!miss) return "no lookup has missed";
  if (miss->nearest.empty()) return "nothing else is in the cache";
  if (!plans.isMissCached() && droppedAtMiss != signatures.numDropped())
    return "the calls of the last miss are not known any more";
  const KeyReader now(miss->key, signatures), before(miss->nearest, signatures);
  if (miss->position < now.requestEnd) return "other heads, targets or policies are requested";
  if (miss->position < now.typesEnd) return "the leaves differ in number or type";
  const auto after = llvm::upper_bound(now.calls, miss->position);
  const size_t call = static_cast<size_t>(after - now.calls.begin()) - 1;
  if (miss->position >= miss->key.size() || miss->position >= miss->nearest.size())
    return utostr(now.calls.size()) + " calls, in the nearest entry " + utostr(before.calls.size());
  const std::string which = "call " + utostr(call + 1) + " of " + utostr(now.calls.size());
  const Signature &mine = *signatures.findById(miss->key[now.calls[call]]);
  if (miss->position != now.calls[call])
    return which + ", operator '" + mine.handle->spelling.str() + "', reads another value as input " +
           utostr(miss->position - now.calls[call]);
  const Signature &other = *signatures.findById(miss->nearest[miss->position]);
  const std::string text = textOf(mine, store.shapes), otherText = textOf(other, store.shapes);
  if (text == otherText)
    return which + ", operator " + text + ", differs in which inputs are tracked, or in its attributes";
  return which + " is operator " + text + ", in the nearest entry " + otherText;
}

}  // namespace gradc
