#include "tools/graph/inspected_step.h"

#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/decoder/decoder_form.h"
#include "tools/graph/roles.h"

namespace beamwright::ops {
namespace {

// What the ports are for, guessed on the form of the graph that a search steps, as for `init`.
absl::StatusOr<DecoderRoles> RolesOf(const Graph& inferred) {
  Graph graph = inferred;
  BW_RETURN_IF_ERROR(LeaveTheStep(graph));
  std::vector<std::string> reasons;
  return GuessDecoderRoles(graph, nullptr, {}, reasons);
}

}  // namespace

absl::StatusOr<InspectedStep> InspectStep(Graph file, const Graph& inferred) {
  InspectedStep step;
  const absl::StatusOr<DecoderRoles> roles = RolesOf(inferred);
  if (!roles.ok()) {
    step.no_step = std::string(roles.status().message());
    return step;
  }
  DecoderOptions options;
  options.token_table_share = 0;
  options.for_inspection = true;
  auto decoder = std::make_unique<SteppedDecoder>();
  BW_RETURN_IF_ERROR(CompileDecoder(std::move(file), PortsOf(*roles), options, *decoder));
  step.decoder = std::move(decoder);
  return step;
}

}  // namespace beamwright::ops
