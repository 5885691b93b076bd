// What the front ends of front_end.h do once a source is complete.
#ifndef BEAMWRIGHT_ENGINE_SOUND_WHOLE_SOURCE_H_
#define BEAMWRIGHT_ENGINE_SOUND_WHOLE_SOURCE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::sound {

// Features that are more than `range` below the largest one are raised to that. 0: none is.
void RaiseToRange(float range, std::vector<float>& features);

// features: [frames, columns]. Each column less its mean, divided by its deviation (n - 1) plus
// 1e-5, as NeMo has it.
void NormalizeColumns(size_t columns, std::vector<float>& features);

// Less their mean, divided by the root of their variance plus 1e-7, as wav2vec2's have it.
void NormalizeSamples(std::vector<float>& samples);

// features: [frames, columns] -> [ceil(frames / shift), stack * columns], as FunASR's apply_lfr:
// the first frame is repeated (stack - 1) / 2 times before the source, and its last one as often as
// needed behind it.
void StackFrames(int columns, int stack, int shift, std::vector<float>& features);

// What is added to each feature, and by which their sum is multiplied; empty: nothing.
struct Cmvn {
  std::vector<float> shift;
  std::vector<float> scale;
};

// The text form of Kaldi's nnet that FunASR writes. InvalidArgument: it has no <AddShift> and
// <Rescale> of equally many numbers.
absl::StatusOr<Cmvn> ParseCmvn(absl::string_view text);

// features: [frames, columns of cmvn].
void ApplyCmvn(const Cmvn& cmvn, std::vector<float>& features);

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_WHOLE_SOURCE_H_
