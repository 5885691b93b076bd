// beamwright recognize: sound in, words out while they are spoken; as text, JSON or subtitles.
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/features.h"
#include "client/cli/flags.h"
#include "client/cli/model_flags.h"
#include "client/cli/sound.h"
#include "client/cli/subtitles.h"
#include "client/cli/terminal.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

struct RecognizeFlags {
  std::vector<std::string> files;
  FeatureFlags features;
  ConnectionFlags connection;
  v1::RecognizeConfig config;
  SoundFlags sound;
  v1::Endpoint endpoint;
  bool ends_segments = false;
  bool json = false;
  bool srt = false;
};

// Gives the next piece of a source; false: it has ended.
using Pieces = std::function<bool(v1::RecognizeRequest& piece)>;

struct NamedSource {
  std::string name;
  bool is_sound = true;
  v1::AudioFormat format;
  Pieces next;
  std::shared_ptr<absl::Status> failure;  // of reading it; null: it cannot fail
};

NamedSource SourceOf(const std::string& path, Sound sound) {
  NamedSource source;
  source.name = path == "-" ? "standard input" : path;
  source.format = sound.format;
  source.failure = sound.failure;
  source.next = [next = std::move(sound.next)](v1::RecognizeRequest& piece) {
    piece.set_audio(next());
    return !piece.audio().empty();
  };
  return source;
}

NamedSource OpenFeatures(NamedFeatures features) {
  NamedSource source;
  source.name = features.name;
  source.is_sound = false;
  source.next = [tensor = std::move(features.tensor),
                 at = int64_t{0}](v1::RecognizeRequest& piece) mutable {
    const int64_t all = tensor.shape_size() == 0 ? 0 : tensor.shape(0);
    if (at >= all) {
      return false;
    }
    // One frame at a time would cost more than it gains.
    constexpr int64_t kFrames = 32;
    const int64_t count = std::min(kFrames, all - at);
    const auto frame_bytes = static_cast<int64_t>(tensor.data().size()) / all;
    v1::Tensor& part = *piece.mutable_features();
    part.set_dtype(tensor.dtype());
    *part.mutable_shape() = tensor.shape();
    part.set_shape(0, count);
    part.set_data(tensor.data().substr(static_cast<size_t>(at * frame_bytes),
                                       static_cast<size_t>(count * frame_bytes)));
    at += count;
    return true;
  };
  return source;
}

// Prints the answers of a source.
class SegmentPrinter {
 public:
  SegmentPrinter(const RecognizeFlags& flags, int& num_subtitles)
      : flags_(flags), num_subtitles_(num_subtitles) {}

  void Print(const v1::RecognizeResponse& message) {
    if (flags_.json) {
      std::cout << ToJson(message, /*pretty=*/false) << std::flush;
      return;
    }
    for (const v1::RecognizedSegment& segment : message.segments()) {
      PrintSegment(segment);
    }
    if (message.has_provisional() && !flags_.srt) {
      std::cout << "  so far: " << HypothesisText(message.provisional()) << "\n";
    }
    std::cout << std::flush;
  }

 private:
  void PrintSegment(const v1::RecognizedSegment& segment) {
    const bool is_empty =
        segment.hypotheses_size() == 0 || segment.hypotheses(0).tokens_size() == 0;
    if (is_empty) {
      return;  // silence
    }
    if (flags_.srt) {
      std::cout << Subtitle(++num_subtitles_, segment);
      return;
    }
    const Heard heard = WhenHeard(segment);
    const std::string time =
        segment.end_ms() > 0
            ? absl::StrFormat("%.2f-%.2f s  ", heard.begin_ms / 1000, heard.end_ms / 1000)
            : "";
    const bool several = segment.hypotheses_size() > 1;
    for (int i = 0; i < segment.hypotheses_size(); ++i) {
      const v1::Hypothesis& hypothesis = segment.hypotheses(i);
      std::cout << time;
      if (several) {
        std::cout << absl::StrFormat("%d  %.4f  ", i + 1, hypothesis.score());
      }
      std::cout << HypothesisText(hypothesis) << "\n";
    }
  }

  const RecognizeFlags& flags_;
  int& num_subtitles_;
};

absl::Status RecognizeOne(Client& client, const RecognizeFlags& flags, NamedSource& source,
                          int& num_subtitles) {
  v1::RecognizeConfig config = flags.config;
  if (source.is_sound) {
    *config.mutable_audio() = source.format;
  }
  if (flags.ends_segments || flags.endpoint.ByteSizeLong() > 0) {
    *config.mutable_endpoint() = flags.endpoint;
  }
  SegmentPrinter printer(flags, num_subtitles);
  const absl::Status status = client.Recognize(config, flags.connection.Deadline(), source.next,
                                               [&](const v1::RecognizeResponse& message) {
                                                 printer.Print(message);
                                                 return static_cast<bool>(std::cout);
                                               });
  return source.failure != nullptr && !source.failure->ok() ? *source.failure : status;
}

// All sources that the command line names, or what is wrong with it.
absl::StatusOr<std::vector<NamedSource>> OpenSources(Client& client, const RecognizeFlags& flags) {
  std::vector<NamedSource> sources;
  BW_ASSIGN_OR_RETURN(const auto features,
                      FeatureFiles::Open(flags.features, client, flags.config.model(),
                                         flags.config.version(), flags.connection.Deadline()));
  for (const std::string& path : flags.features.files) {
    BW_ASSIGN_OR_RETURN(std::vector<NamedFeatures> read, features->Read(path));
    for (NamedFeatures& one : read) {
      sources.push_back(OpenFeatures(std::move(one)));
    }
  }
  for (const std::string& path : flags.files) {
    absl::StatusOr<Sound> sound = OpenSound(path, flags.sound);
    if (!sound.ok()) {
      return absl::Status(sound.status().code(),
                          absl::StrCat(path, ": ", sound.status().message()));
    }
    sources.push_back(SourceOf(path, *std::move(sound)));
  }
  return sources;
}

int Recognize(const CLI::App& command, const RecognizeFlags& flags) {
  if (flags.files.empty() == flags.features.files.empty()) {
    return UsageError(command, flags.files.empty()
                                   ? "FILE or --features is missing; - reads standard input"
                                   : "FILE and --features exclude each other");
  }
  if (flags.json && flags.srt) {
    return UsageError(command, "--json and --srt exclude each other");
  }
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  auto sources = OpenSources(**client, flags);
  if (absl::IsInvalidArgument(sources.status())) {
    return UsageError(command, sources.status().message());
  }
  if (!sources.ok()) {
    return Failure(command, Explain(sources.status(), flags.connection));
  }
  int exit_code = kExitOk;
  int num_subtitles = 0;
  for (NamedSource& source : *sources) {
    if (sources->size() > 1 && !flags.json && !flags.srt) {
      std::cout << Printable(source.name) << ":\n";
    }
    const absl::Status status = RecognizeOne(**client, flags, source, num_subtitles);
    if (!status.ok()) {
      std::cout.flush();
      exit_code = Failure(
          command, absl::StrCat(Printable(source.name), ": ", Explain(status, flags.connection)));
    }
  }
  return std::cout ? exit_code : Failure(command, "cannot write to standard output");
}

}  // namespace

Command AddRecognizeCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "recognize", "Recognise sound, or frames, while they are sent; print segments as they end.");
  auto flags = std::make_shared<RecognizeFlags>();
  flags->connection.timeout = absl::Hours(1);
  app->add_option("FILE", flags->files,
                  "Recordings: WAV, FLAC, Ogg, AIFF, AU, MP3; - reads standard input as it comes.");
  AddFeatureFlags(*app, flags->features);
  AddSoundFlags(*app, flags->sound);
  AddModelFlags(*app, flags->config);
  AddConnectionFlags(*app, flags->connection);
  AddMessageFlags(*app, "Other options", *flags->config.mutable_options());
  app->add_flag("--segments", flags->ends_segments,
                "End segments at pauses; so do the flags that say when.")
      ->group("Segments");
  AddMessageFlags(*app, "Segments", flags->endpoint);
  app->add_flag_callback(
         "--provisional", [flags] { flags->config.set_provisional(true); },
         "Also print the best hypothesis so far, which may change.")
      ->group("Output");
  app->add_flag("--json", flags->json, "Print each message of the server as a line of JSON.")
      ->group("Output");
  app->add_flag("--srt", flags->srt, "Print subtitles (SubRip).")->group("Output");
  app->footer(
      "A segment is printed when it ends: by default with its source, with --segments at pauses.\n"
      "Examples:\n"
      "  beamwright recognize talk.wav --model speech\n"
      "  arecord -q -f S16_LE -r 16000 -t wav | beamwright recognize - --segments --provisional\n"
      "  beamwright recognize talk.wav --segments --srt > talk.srt\n"
      "Exit code: 0 all recognised, 1 a source or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return Recognize(*app, *flags); }};
}

}  // namespace beamwright::client
