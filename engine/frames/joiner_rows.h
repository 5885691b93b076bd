// What a joiner's rows read: of a frame, and of a label history's slot. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_JOINER_ROWS_H_
#define BEAMWRIGHT_ENGINE_FRAMES_JOINER_ROWS_H_

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/frames/slot_pool.h"
#include "ops/decoder/transducer.h"

namespace beamwright::engine {

// A row of a tensor.
struct TensorRow {
  const ops::Tensor& rows;
  int64_t row = 0;
};

// Copies what `count` rows read into `inputs`, one tensor for each input of the joiner.
// frame_of(row, result): what the row has as the numbered result of `graphs.frames`, or as its
// frame. slot_of(row): its history's slot of `pool`.
template <typename FrameOf, typename SlotOf>
void FillJoinerInputs(const ops::Transducer& graphs, const SlotPool& pool, int64_t count,
                      const FrameOf& frame_of, const SlotOf& slot_of,
                      std::vector<ops::Tensor>& inputs) {
  inputs.resize(graphs.joiner_inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ops::Transducer::Input& input = graphs.joiner_inputs[i];
    const ops::ValueInfo& info = graphs.joiner->inputs()[i];
    ops::Shape shape = info.shape.dims();
    shape[0] = count;
    inputs[i].Resize(info.dtype, shape);
    for (int64_t row = 0; row < count; ++row) {
      const TensorRow from =
          input.is_of_frame
              ? frame_of(row, input.result)
              : TensorRow{pool.outputs()[static_cast<size_t>(input.result - graphs.first_output)],
                          slot_of(row)};
      const int64_t bytes = from.rows.num_bytes() / from.rows.dim(0);
      std::memcpy(inputs[i].mutable_bytes() + row * bytes, from.rows.bytes() + from.row * bytes,
                  static_cast<size_t>(bytes));
    }
  }
}

// 0, 1, 2, ...: rows of a graph without states.
inline void CountRows(size_t count, std::vector<int32_t>& rows) {
  rows.resize(count);
  std::iota(rows.begin(), rows.end(), 0);
}

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_JOINER_ROWS_H_
