// WAV files: where the samples are, and how they are written. The format is described in
// Microsoft's "Multimedia Programming Interface and Data Specifications 1.0".
#ifndef BEAMWRIGHT_CLIENT_CLI_WAV_H_
#define BEAMWRIGHT_CLIENT_CLI_WAV_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::client {

struct WavFile {
  v1::AudioFormat format;
  absl::string_view samples;  // of the bytes that were parsed
};

// Of one sample.
size_t SampleBytes(const v1::AudioFormat& format);

bool IsWav(absl::string_view bytes);

// InvalidArgument: it is not a WAV file of one channel of 16-bit integers or 32-bit floats. A file
// whose end is missing has the samples that are there, as a program that records does not know how
// many there would be.
absl::StatusOr<WavFile> ParseWav(absl::string_view bytes);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_WAV_H_
