// How far the value of each node of a step depends on what varies (FindScopes): on the model alone,
// on the request (invariants), on the token, or on the row (states). Values of the model are
// computed at load, those of a request once, and only those of rows in each step.
#include "ops/compile/scopes.h"

namespace beamwright::ops {
namespace {

Scope Join(Scope a, Scope b) {
  if (a == b || b == Scope::kModel) {
    return a;
  }
  return a == Scope::kModel ? b : Scope::kRow;
}

}  // namespace

absl::string_view Name(Scope scope) {
  switch (scope) {
    case Scope::kModel:
      return "model";
    case Scope::kToken:
      return "token";
    case Scope::kRequest:
      return "request";
    case Scope::kRow:
      break;
  }
  return "row";
}

std::vector<Scope> FindScopes(const Loop& loop, const GraphInfo& body_info) {
  const Graph& body = loop.body;
  std::vector<Scope> scopes(body.nodes.size(), Scope::kModel);
  for (const LoopInput& input : loop.inputs) {
    Scope& scope =
        scopes[static_cast<size_t>(body.parameters[static_cast<size_t>(input.body_parameter)])];
    switch (input.kind) {
      case LoopInput::Kind::kInvariant:
        scope = Scope::kRequest;
        break;
      case LoopInput::Kind::kSliced:
        scope = Scope::kToken;
        break;
      case LoopInput::Kind::kCarried:
      case LoopInput::Kind::kIteration:
        scope = Scope::kRow;
        break;
    }
  }
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    if (body_info.IsKnown(static_cast<int>(i))) {
      scopes[i] = Scope::kModel;
      continue;
    }
    for (const ValueId id : body.nodes[i].inputs) {
      if (id.present()) {
        scopes[i] = Join(scopes[i], scopes[static_cast<size_t>(id.node)]);
      }
    }
  }
  return scopes;
}

}  // namespace beamwright::ops
