// A served model that hears tones, and the sound of them: that of tests/frames/train_tones.py.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SOUND_TONES_MODEL_H_
#define BEAMWRIGHT_TESTS_ENGINE_SOUND_TONES_MODEL_H_

#include <string>
#include <vector>

namespace beamwright::sound {

// Writes its bundle into FOLDER/NAME/1.
void WriteTonesBundle(const std::string& folder, const std::string& name);
// That of tests/frames/spot_tones.py: a CTC model whose encoder reads chunk by chunk, and which
// hears quiet.
void WriteTonesChunksBundle(const std::string& folder, const std::string& name);

// Samples at full scale 1 that say the labels, each in [1, 20], with quiet around them.
std::vector<float> Tones(const std::vector<int>& labels, int rate = 16000);
// As they are sent.
std::string AsF32(const std::vector<float>& samples);
std::string AsPcm16(const std::vector<float>& samples);

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_TESTS_ENGINE_SOUND_TONES_MODEL_H_
