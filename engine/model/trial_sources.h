// Sources that a model is tried with before it serves. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_TRIAL_SOURCES_H_
#define BEAMWRIGHT_ENGINE_MODEL_TRIAL_SOURCES_H_

namespace beamwright::engine {

// Their lengths: short, and, where the encoder fails on that, longer, since convolutions may need
// more positions than one. Beyond kLongestTrial only sound is tried, samples being many and narrow.
inline constexpr int kTrialLengths[] = {5, 250, 1000, 4000, 16000};
inline constexpr int kLongestTrial = 1000;

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_TRIAL_SOURCES_H_
