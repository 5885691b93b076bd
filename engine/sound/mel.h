// Triangles on the mel scale and windows of a frame, as the toolkits of front_end.h have them.
#ifndef BEAMWRIGHT_ENGINE_SOUND_MEL_H_
#define BEAMWRIGHT_ENGINE_SOUND_MEL_H_

#include <vector>

namespace beamwright::sound {

// A triangle on the lines of a spectrum from `first` on.
struct MelBin {
  int first = 0;
  std::vector<float> weights;  // none: no line lies within it
};

struct MelOptions {
  int sample_rate = 0;
  int fft_size = 0;
  int num_bins = 0;
  float low = 0;   // Hz
  float high = 0;  // Hz
};

// Kaldi's: straight on the mel scale, in single precision, on lines below fft_size / 2.
std::vector<MelBin> KaldiBins(const MelOptions& options);

// Straight in Hz between points that are spaced evenly on a mel scale, on lines up to fft_size / 2.
// is_slaney: the scale of M. Slaney's Auditory Toolbox (straight below 1 kHz), and triangles of one
// area; else the scale of HTK, and triangles of one height.
std::vector<MelBin> TriangleBins(const MelOptions& options, bool is_slaney);

enum class Window { kPovey, kHamming, kHann };

// is_periodic: of a period of `length` samples, else `length` - 1, so that both ends are equal.
std::vector<double> MakeWindow(Window window, int length, bool is_periodic);

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_MEL_H_
