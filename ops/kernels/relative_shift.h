// RelativeShift: attention's scores by relative position, [.., time, places], as scores of keys:
//
//   out[.., t, key] = data[.., t, time - 1 - t + key]
//
// Place `time - 1` is distance 0. Each step reads a window of its row that moves by one from step
// to step. In no file: exporters write the windows as computed indices over joined axes, which
// FindRelativeShifts recognises.
#ifndef BEAMWRIGHT_OPS_KERNELS_RELATIVE_SHIFT_H_
#define BEAMWRIGHT_OPS_KERNELS_RELATIVE_SHIFT_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

inline constexpr char kRelativeShiftName[] = "RelativeShift";

// data [.., time, places] of any type, and how many keys there are, an integer of one element. An
// error unless time - 1 + keys is at most places.
extern const OperatorCode kRelativeShift;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_RELATIVE_SHIFT_H_
