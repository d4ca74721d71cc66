#include "tools/gradc/reference/operators_json.h"

#include "llvm/Support/JSON.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

StringRef nameOf(Domain domain) {
  switch (domain) {
    case Domain::Any: return "any";
    case Domain::Positive: return "positive";
    case Domain::Probability: return "probability";
    case Domain::ClassIndex: return "class";
    case Domain::Length: return "length";
    case Domain::WithinOne: return "within_one";
    case Domain::AboveOne: return "above_one";
    case Domain::Index: return "index";
  }
  return "any";
}

/// Positions of a set, or null where they depend on the attributes.
void printSet(json::OStream &out, StringRef key, const InputSet &set) {
  if (set.contains) return out.attribute(key, nullptr);
  out.attributeArray(key, [&] {
    for (uint32_t i = 0; i < 64; ++i)
      if (set.fixed >> i & 1) out.value(i);
  });
}

/// Null where they depend on the attributes.
void printDomains(json::OStream &out, const InputDomains &domains) {
  if (domains.at) return out.attribute("domains", nullptr);
  out.attributeArray("domains", [&] {
    for (Domain domain : domains.fixed) out.value(nameOf(domain));
  });
}

void printPorts(json::OStream &out, StringRef key, const Ports &ports) {
  out.attributeObject(key, [&] {
    out.attributeArray("names", [&] {
      for (StringRef name : ArrayRef<StringRef>(ports.names)) out.value(name);
    });
    out.attribute("depends_on_attributes", ports.number != nullptr);
    out.attribute("variadic", ports.isVariadic);
  });
}

void printAttribute(json::OStream &out, const AttrSpec &spec) {
  out.object([&] {
    out.attribute("name", spec.key);
    out.attribute("type", spec.typeName);
    out.attribute("required", spec.isRequired);
    if (!spec.isRequired) out.attribute("default", spec.defaultText);
    if (std::isfinite(spec.lowest)) out.attribute("lowest", spec.lowest);
    if (std::isfinite(spec.highest)) out.attribute("highest", spec.highest);
    if (!spec.choices.empty())
      out.attributeArray("choices", [&] {
        for (StringRef choice : spec.choices) out.value(choice);
      });
    out.attribute("meaning", json::fixUTF8(spec.doc));
  });
}

void printOperator(json::OStream &out, const OpDef &op) {
  out.object([&] {
    out.attribute("name", op.name);
    out.attributeArray("also_called", [&] {
      for (StringRef alias : ArrayRef<StringRef>(op.aliases)) out.value(alias);
    });
    out.attribute("summary", json::fixUTF8(op.summary));
    printPorts(out, "inputs", op.inputs);
    printPorts(out, "outputs", op.outputs);
    printDomains(out, op.domains);
    printSet(out, "overwrites", op.mutated);
    printSet(out, "no_gradient_to", op.stopped);
    out.attribute("differentiable", op.isDifferentiable());
    out.attribute("random", op.flags.isRandom);
    out.attribute("integers", op.kernelTypes.contains(DType::Int32));
    out.attributeArray("attributes", [&] {
      for (const AttrSpec &spec : op.attrs) printAttribute(out, spec);
    });
  });
}

}  // namespace

void printOperatorsJson(raw_ostream &os, ArrayRef<const OpDef *> operators) {
  json::OStream out(os, 1);
  out.array([&] {
    for (const OpDef *op : operators) printOperator(out, *op);
  });
  os << '\n';
}

}  // namespace gradc
