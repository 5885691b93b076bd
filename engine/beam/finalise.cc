#include "engine/beam/finalise.h"

#include <algorithm>

#include "ops/base/status.h"
#include "ops/kernels/parallel.h"
#include "ops/loop/operators.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;

// GatherTree's end token: no slot has this number. A real token would do harm: several tokens may
// end a hypothesis, and one may stand inside a prefix.
constexpr int32_t kNoSlot = -1;

// Of a path's element, as ops/kernels/parallel.h counts it.
constexpr int64_t kWorkToCollect = 2000;

const ops::Kernel& GatherTreeKernel() {
  static const ops::Kernel* const kernel = [] {
    ops::Node node;
    node.op = "GatherTree";
    node.name = "n-best";
    const auto info = [](int rank) {
      return ops::InputInfo{ops::DType::kI32,
                            ops::PartialShape(ops::Shape(static_cast<size_t>(rank), -1)), nullptr};
    };
    const std::vector<ops::InputInfo> inputs = {info(3), info(3), info(1), info(0)};
    absl::StatusOr<std::unique_ptr<ops::Kernel>> made =
        ops::Operators().Find("GatherTree")->make({node, inputs, ops::Operators()});
    BW_CHECK(made.ok());
    return made->release();
  }();
  return *kernel;
}

// Copies a search's [steps, slots] into its columns of a [time, request, slot] tensor.
void CopyColumns(absl::Span<const int32_t> from, int num_slots, int64_t row, int64_t stride,
                 int32_t* to) {
  for (size_t step = 0; step * static_cast<size_t>(num_slots) < from.size(); ++step) {
    std::copy_n(from.data() + step * static_cast<size_t>(num_slots), num_slots,
                to + static_cast<int64_t>(step) * stride + row);
  }
}

}  // namespace

std::vector<absl::StatusOr<std::vector<search::Hypothesis>>> Finalise(
    const ops::ExecutionContext& context, absl::Span<const search::BeamSearch* const> searches) {
  int64_t steps = 0;
  int64_t slots = 0;
  for (const search::BeamSearch* search : searches) {
    steps = std::max<int64_t>(steps, search->history().num_steps());
    slots = std::max<int64_t>(slots, search->num_slots());
  }
  const auto count = static_cast<int64_t>(searches.size());
  const ops::Shape shape = {steps, count, slots};
  Tensor ids(ops::DType::kI32, shape);
  Tensor parents = Tensor::Zeros(ops::DType::kI32, shape);
  std::fill_n(ids.mutable_data<int32_t>(), ids.num_elements(), kNoSlot);
  Tensor lengths(ops::DType::kI32, {count});
  for (int64_t i = 0; i < count; ++i) {
    const search::SlotHistory& history = searches[static_cast<size_t>(i)]->history();
    CopyColumns(history.slot_ids(), history.num_slots(), i * slots, count * slots,
                ids.mutable_data<int32_t>());
    CopyColumns(history.slot_parents(), history.num_slots(), i * slots, count * slots,
                parents.mutable_data<int32_t>());
    lengths.mutable_data<int32_t>()[i] = history.num_steps();
  }
  const Tensor end = Tensor::Scalar(kNoSlot);
  Tensor paths;
  const absl::Status status =
      GatherTreeKernel().Run(context, {&ids, &parents, &lengths, &end}, absl::MakeSpan(&paths, 1));
  std::vector<absl::StatusOr<std::vector<search::Hypothesis>>> lists(searches.size());
  ops::ParallelFor(
      context.num_threads, count, paths.num_elements() * kWorkToCollect, [&](int64_t i) {
        const auto at = static_cast<size_t>(i);
        if (!status.ok()) {
          lists[at] = absl::InternalError(status.message());
          return;
        }
        lists[at] = searches[at]->Collect(
            {paths.span<int32_t>().subspan(static_cast<size_t>(i * slots)), count * slots});
      });
  return lists;
}

}  // namespace beamwright::engine
