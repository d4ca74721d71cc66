// Tested by tests/imperative/imperative_test.cc
#include "imperative/tape/tape.h"

#include "imperative/tape/function_op.h"
#include "imperative/tape/signature.h"

using namespace llvm;

namespace gradc {
namespace {

// Destroying a node may destroy tensors, and these other nodes, which join the list of the `destroy` under way.
constinit thread_local TapeNode *doomed = nullptr;
constinit thread_local bool isDestroying = false;

void releaseEdges(TapeNode &node) {
  for (Edge &edge : node.edges()) {
    release(edge);
    edge = Edge();
  }
  if (node.forward) release(std::exchange(node.forward, nullptr));
}

void destroyOne(TapeNode *node) {
  clear(*node, false);
  if (node->origin) release(node->origin);
  while (RetainedMark *retained = node->retained) {
    node->retained = retained->next;
    release(retained->mark);
    node->store->freeSized(retained, sizeof(RetainedMark));
  }
  // With the lock, the reference goes back to those that were taken in advance.
  if (node->store->isLockedHere() && !node->store->hasEnded()) ++node->signature->prepaid;
  else release(node->signature);
  node->store->freeSized(node, TapeNode::bytes(node->numEdges, node->numKept));
}

}  // namespace

void destroy(TapeNode *node) {
  node->draw = reinterpret_cast<uint64_t>(doomed);
  doomed = node;
  if (isDestroying) return;
  isDestroying = true;
  while (doomed) destroyOne(std::exchange(doomed, reinterpret_cast<TapeNode *>(doomed->draw)));
  isDestroying = false;
}

std::string describeCall(uint64_t call, const NodeKind &of) {
  return ("call " + Twine(call) + " of " + (isHostCode(*of.op) ? "function '" : "operator '") + of.spelling + "'")
      .str();
}

std::string describeFully(const TapeNode &node) {
  auto at = [](CallSite site) { return site.file ? (" at " + Twine(site.file) + ":" + Twine(site.line)).str() : ""; };
  std::string text = describe(node) + at(node.site());
  for (const Origin *origin = node.origin; origin; origin = origin->parent)
    text += ", the gradient of " + describeCall(origin->call, *origin->kind->kind) + at(origin->site);
  return text;
}

Origin *makeOrigin(const TapeNode &node) {
  void *const block = node.store->allocate(sizeof(Origin));
  if (!block) return nullptr;
  if (node.origin) retain(node.origin);
  retain(node.signature->kind);
  return new (block) Origin{
      .kind = node.signature->kind, .call = node.call, .site = node.site(), .parent = node.origin, .store = node.store};
}

std::string describe(const TapeNode &node) { return describeCall(node.call, *node.signature->kind->kind); }

void releaseKept(TapeNode &node) {
  for (Kept &kept : node.kept())
    if (kept.storage) releaseKept(std::exchange(kept.storage, nullptr));
}

void clear(TapeNode &node, bool keepsEdges) {
  releaseKept(node);
  if (node.state) {
    if (node.isFunction) releaseSaved(*node.state);
    if (!keepsEdges) release(std::exchange(node.state, nullptr));
  }
  if (!keepsEdges) releaseEdges(node);
}

void destroy(Origin *origin) {
  while (origin) {
    Origin *const parent = origin->parent;
    release(origin->kind);
    origin->store->freeSized(origin, sizeof(Origin));
    origin = parent && parent->refs.fetch_sub(1, std::memory_order_acq_rel) == 1 ? parent : nullptr;
  }
}

}  // namespace gradc
