// Reads the files of --features and --further-input into the tensors of v1::Source.
//
// 1. Make reads the model's description: which input the encoder has, its element type and shape,
//    and its further inputs. A flag that the model has no input for is refused here, before a file
//    is read.
// 2. ReadArrays reads a file: .npy is one array, .npz is several by name, any other name is raw f32
//    of the shape of --features-shape (ParseRaw), in which one extent of -1 follows from the file's
//    size.
// 3. ToProto converts an array to the element type of the input. A source has no axis of rows; an
//    array [1, frames, width] for an input [frames, width] is the most frequent mistake, and the
//    error says to save x[0].
// 4. Read returns a source per array, named "FILE" or "FILE:ARRAY"; AddFurtherInputs adds to source
//    `number` the further inputs: the one array of a .npy file, or array `number` of a .npz file.
#include "client/cli/features.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers.h"
#include "client/cli/flags.h"
#include "ops/audio/sound_file.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/numpy/npz.h"

namespace beamwright::client {
namespace {

using ops::Tensor;

constexpr int64_t kOpen = -1;

std::string Shown(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The extents of --features-shape, "-1,80"; at most one is -1, which follows from the size.
absl::StatusOr<std::vector<int64_t>> ParseRawShape(const std::string& text) {
  std::vector<int64_t> shape;
  int num_open = 0;
  for (const absl::string_view piece : absl::StrSplit(text, ',')) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(piece, &extent) || extent == 0 || extent < kOpen) {
      return Invalid("--features-shape: \"", Printable(piece),
                     "\" is not an extent; a shape is written like -1,80, where -1 follows from "
                     "the file's size");
    }
    num_open += extent == kOpen ? 1 : 0;
    shape.push_back(extent);
  }
  return num_open <= 1 ? absl::StatusOr<std::vector<int64_t>>(std::move(shape))
                       : Invalid("--features-shape: ", text, " leaves ", num_open,
                                 " extents open; one may be");
}

// Raw little-endian f32 of this shape. The number of elements is bounded before it is multiplied
// further, so that no product overflows.
absl::StatusOr<Tensor> ParseRaw(const std::string& bytes, std::vector<int64_t> shape) {
  constexpr int64_t kMostElements = int64_t{1} << 32;
  int64_t known = 1;
  for (const int64_t extent : shape) {
    known = extent == kOpen ? known : known * std::min(extent, kMostElements);
    if (known > kMostElements) {
      return Invalid("--features-shape: ", Shown(shape), " has too many elements");
    }
  }
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t row = known * static_cast<int64_t>(sizeof(float));
  const auto open = std::find(shape.begin(), shape.end(), kOpen);
  if (open != shape.end() ? size % row != 0 || size == 0 : size != row) {
    return Invalid("has ", WithCommas(size), " bytes; f32 of shape ", Shown(shape), " needs ",
                   open != shape.end() ? "a multiple of " : "", WithCommas(row));
  }
  if (open != shape.end()) {
    *open = size / row;
  }
  Tensor tensor(ops::DType::kF32, ops::Shape(shape.begin(), shape.end()));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(tensor.mutable_bytes()));
  return tensor;
}

absl::StatusOr<v1::Tensor> ToProto(const Tensor& given, const v1::TensorDescription& input,
                                   const std::string& takes) {
  const int rank = given.rank();
  if (rank == input.shape_size() + 1 && given.dim(0) == 1) {
    return Invalid(Shown(given.shape()), " has an axis too many: a source is ", takes,
                   ", without the axis of rows; save x[0] instead of x");
  }
  BW_ASSIGN_OR_RETURN(const ops::DType wanted, ops::ParseDType(input.dtype()));
  BW_ASSIGN_OR_RETURN(const Tensor tensor, Convert(given, wanted));
  v1::Tensor proto;
  proto.set_dtype(input.dtype());
  proto.mutable_shape()->Assign(tensor.shape().begin(), tensor.shape().end());
  proto.set_data(reinterpret_cast<const char*>(tensor.bytes()),
                 static_cast<size_t>(tensor.num_bytes()));
  return proto;
}

// The arrays of a file by name; a file of one array has the empty name.
absl::StatusOr<ops::TensorMap> ReadArrays(const std::string& path,
                                          const std::optional<std::vector<int64_t>>& raw_shape) {
  BW_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  ops::TensorMap arrays;
  if (absl::EndsWithIgnoreCase(path, ".npz")) {
    return ops::ParseNpz(bytes);
  }
  if (absl::EndsWithIgnoreCase(path, ".npy")) {
    BW_ASSIGN_OR_RETURN(arrays[""], ops::ParseNpy(bytes));
    return arrays;
  }
  if (!raw_shape.has_value()) {
    return Invalid(
        "its name ends in neither .npy nor .npz; of raw f32 say the shape with --features-shape");
  }
  BW_ASSIGN_OR_RETURN(arrays[""], ParseRaw(bytes, *raw_shape));
  return arrays;
}

}  // namespace

void AddFeatureFlags(CLI::App& app, FeatureFlags& flags) {
  app.add_option("--features", flags.files,
                 "Sources are tensors of features, without the axis of rows: a .npy file is one "
                 "source, each array of a .npz file is, any other file is raw f32.")
      ->type_name("FILE...")
      ->check(CLI::ExistingFile)
      ->group("Input");
  app.add_option("--features-shape", flags.raw_shape,
                 "Shape of raw f32 in --features, such as -1,80; -1 follows from the file's size.")
      ->type_name("EXTENTS")
      ->group("Input");
  app.add_option("--further-input", flags.further,
                 "A further input of the encoder, without the axis of rows: a .npy file is "
                 "that of every source, each array of a .npz file is that of one.")
      ->type_name("NAME=FILE")
      ->group("Input");
}

bool TakesFeatures(const v1::ModelDescription& model) {
  if (!model.has_encoder_input()) {
    return false;
  }
  const auto dtype = ops::ParseDType(model.encoder_input().dtype());
  return dtype.ok() && ops::IsFloat(*dtype);
}

std::string DescribeFeatures(const v1::ModelDescription& model) {
  std::vector<std::string> extents;
  for (const int64_t extent : model.encoder_input().shape()) {
    // The description leaves out axis 0, that of the rows.
    const bool is_length = static_cast<int>(extents.size()) + 1 == model.source_length_axis();
    const std::string known = extent == kOpen ? "any" : absl::StrCat(extent);
    extents.push_back(!is_length        ? known
                      : extent == kOpen ? "length"
                                        : absl::StrCat("length ", known));
  }
  return absl::StrCat(model.encoder_input().name(), " ", model.encoder_input().dtype(), " [",
                      absl::StrJoin(extents, ", "), "]");
}

std::string DescribeFurtherInput(const v1::TensorDescription& input) {
  return absl::StrCat(input.name(), " ", input.dtype(), " [",
                      absl::StrJoin(input.shape(), ", ",
                                    [](std::string* out, int64_t extent) {
                                      absl::StrAppend(
                                          out, extent == kOpen ? "any" : absl::StrCat(extent));
                                    }),
                      "]", input.has_default() ? ", may be left out" : "");
}

absl::StatusOr<std::optional<FeatureFiles>> FeatureFiles::Open(const FeatureFlags& flags,
                                                               Client& client,
                                                               const std::string& model,
                                                               const std::string& version,
                                                               absl::Time deadline) {
  if (flags.files.empty() && (flags.further.empty() || !flags.raw_shape.empty())) {
    return flags.raw_shape.empty() ? absl::StatusOr<std::optional<FeatureFiles>>(std::nullopt)
                                   : Invalid("--features-shape: needs --features");
  }
  BW_ASSIGN_OR_RETURN(const v1::ModelDescription description,
                      client.DescribeModel(model, version, deadline));
  return Make(flags, description);
}

absl::StatusOr<FeatureFiles> FeatureFiles::Make(const FeatureFlags& flags,
                                                const v1::ModelDescription& model) {
  const bool has_features = !flags.files.empty() || flags.further.empty();
  if (has_features && !TakesFeatures(model)) {
    return Invalid("--features: model ", Printable(model.summary().name()),
                   model.has_encoder_input() ? " takes text or ids, not features"
                                             : " has no encoder to read features");
  }
  FeatureFiles files;
  files.input_ = model.encoder_input();
  files.takes_ = has_features ? Printable(DescribeFeatures(model)) : "";
  if (!flags.raw_shape.empty()) {
    BW_ASSIGN_OR_RETURN(files.raw_shape_, ParseRawShape(flags.raw_shape));
  }
  for (const std::string& flag : flags.further) {
    BW_ASSIGN_OR_RETURN(FurtherInput input, ReadFurtherInput(flag, model));
    files.further_.push_back(std::move(input));
  }
  return files;
}

absl::StatusOr<FeatureFiles::FurtherInput> FeatureFiles::ReadFurtherInput(
    const std::string& flag, const v1::ModelDescription& model) {
  FurtherInput input;
  const size_t equals = flag.find('=');
  if (equals == std::string::npos) {
    return Invalid("--further-input: \"", Printable(flag), "\" is not NAME=FILE");
  }
  input.name = flag.substr(0, equals);
  input.path = flag.substr(equals + 1);
  const auto& known = model.further_inputs();
  const auto at = std::find_if(known.begin(), known.end(), [&](const v1::TensorDescription& one) {
    return one.name() == input.name;
  });
  if (at == known.end()) {
    return Invalid("--further-input: model ", Printable(model.summary().name()), " takes no '",
                   Printable(input.name), "'; it takes ", known.empty() ? "none" : "",
                   absl::StrJoin(known, ", ", [](std::string* out, const auto& one) {
                     absl::StrAppend(out, Printable(DescribeFurtherInput(one)));
                   }));
  }
  input.for_all = !absl::EndsWithIgnoreCase(input.path, ".npz");
  const auto read = [&]() -> absl::Status {
    if (input.for_all && !absl::EndsWithIgnoreCase(input.path, ".npy")) {
      return Invalid("its name ends in neither .npy nor .npz");
    }
    BW_ASSIGN_OR_RETURN(const ops::TensorMap arrays, ReadArrays(input.path, std::nullopt));
    for (const auto& [array, tensor] : arrays) {
      BW_ASSIGN_OR_RETURN(v1::Tensor proto,
                          ToProto(tensor, *at, Printable(DescribeFurtherInput(*at))));
      input.tensors.push_back(std::move(proto));
    }
    return absl::OkStatus();
  };
  BW_RETURN_IF_ERROR(Annotate(read(), absl::StrCat("--further-input: ", input.path)));
  return input;
}

absl::Status FeatureFiles::AddFurtherInputs(size_t number, v1::Source& source) const {
  for (const FurtherInput& input : further_) {
    if (!input.for_all && number >= input.tensors.size()) {
      return Invalid("--further-input: ", input.path, " has ", input.tensors.size(),
                     " arrays; this is source ", number + 1);
    }
    (*source.mutable_further_inputs())[input.name] = input.tensors[input.for_all ? 0 : number];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedFeatures>> FeatureFiles::Read(const std::string& path) const {
  BW_ASSIGN_OR_RETURN(const ops::TensorMap arrays, ReadArrays(path, raw_shape_));
  std::vector<NamedFeatures> sources;
  for (const auto& [array, tensor] : arrays) {
    absl::StatusOr<v1::Tensor> proto = ToProto(tensor, input_, takes_);
    if (!proto.ok()) {
      return array.empty() ? proto.status()
                           : Annotate(proto.status(), absl::StrCat("array '", array, "'"));
    }
    sources.push_back({array.empty() ? path : absl::StrCat(path, ":", array), *std::move(proto)});
  }
  return sources;
}

// Opens the sound of a file or of standard input and gives it in pieces of a tenth of a second, as
// 16-bit samples or floats.
//
// OpenSound: a file is read whole and decoded by its kind (SoundOfFile). From a pipe, sound must be
// passed on while it comes: a WAV file is read as it comes (WavOfPipe), raw samples of --samples
// too (RawSound), and other kinds are read to their end first. The kind is found by the first bytes
// (audio::KindOf).

namespace {

using audio::SoundFile;
using audio::SoundKind;
using audio::WavReader;

size_t PieceSamples(const v1::AudioFormat& format) {
  return static_cast<size_t>(std::max(format.sample_rate(), 10) / 10);
}

// Samples at full scale 1, as the server reads them.
std::string Encoded(const std::vector<float>& samples, const v1::AudioFormat& format) {
  if (format.samples() == v1::SAMPLE_FORMAT_F32) {
    return {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(float)};
  }
  std::string bytes;
  for (const float sample : samples) {
    const auto integer = static_cast<int16_t>(std::lround(sample * 32768));
    bytes.append(reinterpret_cast<const char*>(&integer), sizeof(integer));
  }
  return bytes;
}

v1::AudioFormat FormatOf(bool fits_16_bits, int sample_rate) {
  v1::AudioFormat format;
  format.set_samples(fits_16_bits ? v1::SAMPLE_FORMAT_PCM16 : v1::SAMPLE_FORMAT_F32);
  format.set_sample_rate(sample_rate);
  return format;
}

// Up to `size` more bytes of standard input; false: it has ended.
bool ReadInput(size_t size, std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + size);
  const ssize_t count = ::read(STDIN_FILENO, bytes.data() + before, size);
  bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return count > 0;
}

bool IsRaw(const std::optional<SoundKind>& kind, const SoundFlags& flags) {
  return !flags.samples.empty() && !(kind.has_value() && kind->is_sure);
}

absl::Status NotKnown(const absl::Status& status, const std::optional<SoundKind>& kind) {
  return kind.has_value() ? status
                          : Invalid(status.message(),
                                    "; raw samples need --samples, which says how they are "
                                    "written");
}

// The samples of a file that is there whole.
absl::StatusOr<Sound> SoundOfFile(std::string bytes, const SoundFlags& flags) {
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  absl::StatusOr<std::unique_ptr<SoundFile>> opened = SoundFile::Open(*kept, flags.channel);
  if (!opened.ok()) {
    return NotKnown(opened.status(), audio::KindOf(*kept));
  }
  std::shared_ptr<SoundFile> file = *std::move(opened);
  Sound sound;
  sound.format = FormatOf(file->fits_16_bits(), file->sample_rate());
  sound.next = [kept, file, format = sound.format, failure = sound.failure] {
    std::vector<float> samples;
    *failure = file->Read(PieceSamples(format), samples);
    return failure->ok() ? Encoded(samples, format) : std::string();
  };
  return sound;
}

// Raw samples: `begun`, and in a pipe what follows on standard input.
Sound RawSound(std::string begun, bool is_pipe, const SoundFlags& flags) {
  Sound sound;
  sound.format = FormatOf(flags.samples != "f32", flags.sample_rate);
  const size_t width = SampleBytes(sound.format);
  const size_t size = PieceSamples(sound.format) * width;
  sound.next = [=, rest = std::move(begun), at = size_t{0}]() mutable {
    while (is_pipe && rest.size() < width && ReadInput(size, rest)) {
    }
    // Half a sample at the end is the server's to refuse.
    const size_t left = rest.size() - at;
    const size_t count = std::min(size, left < width ? left : left / width * width);
    std::string piece = rest.substr(at, count);
    at += count;
    if (is_pipe) {
      rest.erase(0, std::exchange(at, 0));
    }
    return piece;
  };
  return sound;
}

// A WAV file in a pipe, of which `begun` has been read. Its head is read here.
absl::StatusOr<Sound> WavOfPipe(std::string begun, const SoundFlags& flags) {
  constexpr size_t kHead = 256;
  auto reader = std::make_shared<WavReader>(flags.channel);
  std::vector<float> first;
  std::string all = begun;
  absl::Status status = reader->Add(begun, first);
  for (std::string bytes; status.ok() && !reader->has_begun() && ReadInput(kHead, bytes);
       bytes.clear()) {
    all += bytes;
    status = reader->Add(bytes, first);
  }
  if (absl::IsUnimplemented(status)) {  // libsndfile may read it, whole
    while (ReadInput(size_t{1} << 16, all)) {
    }
    return SoundOfFile(std::move(all), flags);
  }
  BW_RETURN_IF_ERROR(status);
  BW_RETURN_IF_ERROR(reader->Finish());
  Sound sound;
  sound.format = FormatOf(reader->fits_16_bits(), reader->sample_rate());
  sound.next = [reader, samples = std::move(first), format = sound.format,
                failure = sound.failure]() mutable {
    std::string bytes;
    while (samples.empty() && failure->ok() && ReadInput(PieceSamples(format) * 2, bytes)) {
      *failure = reader->Add(bytes, samples);
      bytes.clear();
    }
    return Encoded(std::exchange(samples, {}), format);
  };
  return sound;
}

absl::StatusOr<Sound> SoundOfPipe(const SoundFlags& flags) {
  std::string bytes;
  while (bytes.size() < audio::kKindBytes && ReadInput(audio::kKindBytes - bytes.size(), bytes)) {
  }
  const std::optional<SoundKind> kind = audio::KindOf(bytes);
  if (IsRaw(kind, flags)) {
    return RawSound(std::move(bytes), /*is_pipe=*/true, flags);
  }
  if (kind.has_value() && kind->is_wav) {
    return WavOfPipe(std::move(bytes), flags);
  }
  while (kind.has_value() && kind->is_read && ReadInput(size_t{1} << 16, bytes)) {
  }
  return SoundOfFile(std::move(bytes), flags);
}

}  // namespace

void AddChannelFlag(CLI::App& app, SoundFlags& flags) {
  AddIntFlag(app, {"--channel", "Sound", "The channel that is read, from 1; 0: the mean of all."},
             0, audio::kMaxChannels, flags.channel);
}

void AddSoundFlags(CLI::App& app, SoundFlags& flags) {
  AddChannelFlag(app, flags);
  app.add_option("--samples", flags.samples,
                 "Bytes of no known kind are raw samples of this form: pcm16 or f32.")
      ->check(CLI::IsMember({"pcm16", "f32"}))
      ->group("Raw samples");
  AddIntFlag(app, {"--sample-rate", "Raw samples", "Samples a second."}, 6000, 192000,
             flags.sample_rate);
}

size_t SampleBytes(const v1::AudioFormat& format) {
  return format.samples() == v1::SAMPLE_FORMAT_F32 ? 4 : 2;
}

absl::StatusOr<Sound> OpenSound(const std::string& path, const SoundFlags& flags) {
  if (path == "-") {
    return SoundOfPipe(flags);
  }
  BW_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  if (IsRaw(audio::KindOf(bytes), flags)) {
    return RawSound(std::move(bytes), /*is_pipe=*/false, flags);
  }
  return SoundOfFile(std::move(bytes), flags);
}

bool IsRecording(const std::string& path, const SoundFlags& flags) {
  constexpr absl::string_view kAnswers[] = {".txt", ".srt", ".vtt", ".jsonl", ".tsv", ".part"};
  constexpr absl::string_view kSounds[] = {".wav", ".flac", ".ogg", ".oga",  ".opus", ".mp3",
                                           ".aif", ".aiff", ".au",  ".aifc", ".caf",  ".w64"};
  const std::filesystem::path file(path);
  const std::string extension = absl::AsciiStrToLower(file.extension().string());
  if (absl::StartsWith(file.filename().string(), ".") ||
      absl::c_linear_search(kAnswers, extension)) {
    return false;
  }
  // A damaged recording is to fail by its name, not to be passed over.
  if (!flags.samples.empty() || absl::c_linear_search(kSounds, extension)) {
    return true;
  }
  std::string bytes(audio::kKindBytes, '\0');
  std::ifstream begun(path, std::ios::binary);
  begun.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(begun.gcount()));
  const std::optional<SoundKind> kind = audio::KindOf(bytes);
  return kind.has_value() && kind->is_sure;
}

}  // namespace beamwright::client
