// Sources that a model is tried with before it serves. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_TRIAL_SOURCES_H_
#define BEAMWRIGHT_ENGINE_MODEL_TRIAL_SOURCES_H_

namespace beamwright::engine {

// Their lengths: short, and, where the encoder fails on that, longer, since convolutions may need
// more positions than one.
inline constexpr int kTrialLengths[] = {5, 250};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_TRIAL_SOURCES_H_
