// beamwright recognize: sound in, words out while they are spoken; as text, JSON or subtitles.
//
// 1. OpenSources: recordings, standard input, or files of features. Each source gives pieces
//    (Pieces); a recording gives them as it is read, features 32 frames at a time.
// 2. RecognizeOne sends one source over a stream and prints each message as it arrives
//    (SegmentPrinter).
// 3. RecognizeBatch, with --output-dir: recordings one after the other, each into a separate file,
//    which gets its name when it is complete. So an interrupted run goes on where it ended.
//
// A source that fails does not end the others; the exit code says that one did.
//
// What --output-dir writes, for `recognize calls/ --output-dir out`, where calls/ has a/1.wav and
// b.wav:
//
//   out/a/1.wav.txt, out/b.wav.txt     the texts (.jsonl, .srt, .vtt by the flags)
//   out/results.tsv                    a line for each recording, failed ones too
//
// A second call with the same arguments passes over recordings whose text is there, and tries
// failed ones again.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/features.h"
#include "client/cli/flags.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

namespace fs = std::filesystem;

struct RecognizeFlags {
  std::vector<std::string> files;
  FeatureFlags features;
  ConnectionFlags connection;
  v1::RecognizeConfig config;
  SoundFlags sound;
  v1::Endpoint endpoint;
  bool ends_segments = false;
  bool json = false;
  std::optional<SubtitleForm> subtitles;
  std::string output_dir;  // empty: standard output

  // Of a file of answers.
  const char* Extension() const {
    return json                               ? ".jsonl"
           : !subtitles.has_value()           ? ".txt"
           : *subtitles == SubtitleForm::kSrt ? ".srt"
                                              : ".vtt";
  }
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

// A tensor [frames, width] is cut into messages of up to 32 frames. Its bytes are those of the rows
// one after the other, so that a piece is a part of the string.
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

// Prints the answers of sources.
class SegmentPrinter {
 public:
  SegmentPrinter(const RecognizeFlags& flags, std::ostream& out) : flags_(flags), out_(out) {
    if (flags.subtitles.has_value()) {
      out << audio::SubtitleHeader(*flags.subtitles);
    }
  }

  void PrintName(const std::string& name) {
    if (!flags_.json && !flags_.subtitles.has_value()) {
      out_ << Printable(name) << ":\n";
    }
  }

  // False: the stream failed.
  bool Print(const v1::RecognizeResponse& message) {
    if (flags_.json) {
      out_ << ToJson(message, /*pretty=*/false) << std::flush;
      return static_cast<bool>(out_);
    }
    for (const v1::RecognizedSegment& segment : message.segments()) {
      PrintSegment(segment);
    }
    if (message.has_provisional() && !flags_.subtitles.has_value()) {
      out_ << "  so far: " << HypothesisText(message.provisional()) << "\n";
    }
    out_ << std::flush;
    return static_cast<bool>(out_);
  }

 private:
  // An example with words: "0.32-1.10 s good morning", and below it " 0.32-0.61 s 0.98 good" for
  // each word: when it was spoken, and the confidence from 0 to 1. A segment without tokens is
  // silence and prints nothing.
  void PrintSegment(const v1::RecognizedSegment& segment) {
    const bool is_empty =
        segment.hypotheses_size() == 0 || segment.hypotheses(0).tokens_size() == 0;
    if (is_empty) {
      return;  // silence
    }
    if (flags_.subtitles.has_value()) {
      out_ << Subtitle(*flags_.subtitles, ++num_subtitles_, segment);
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
      out_ << time;
      if (several) {
        out_ << absl::StrFormat("%d  %.4f  ", i + 1, hypothesis.score());
      }
      out_ << HypothesisText(hypothesis) << "\n";
    }
    if (flags_.config.options().words()) {
      PrintWords(segment);
    }
  }

  void PrintWords(const v1::RecognizedSegment& segment) {
    for (const v1::Word& word : segment.words()) {
      out_ << absl::StrFormat("  %.2f-%.2f s  %.2f  %s\n", word.begin_ms() / 1000,
                              word.end_ms() / 1000, word.confidence(), Printable(word.text()));
    }
  }

  const RecognizeFlags& flags_;
  std::ostream& out_;
  int num_subtitles_ = 0;
};

// `take` returns false to give the stream up.
//
// The failure of the source counts more than that of the call: a file that cannot be read further
// ends the call as well.
absl::Status RecognizeOne(Client& client, const RecognizeFlags& flags, NamedSource& source,
                          const std::function<bool(const v1::RecognizeResponse& message)>& take) {
  v1::RecognizeConfig config = flags.config;
  if (source.is_sound) {
    *config.mutable_audio() = source.format;
  }
  if (flags.ends_segments || flags.endpoint.ByteSizeLong() > 0) {
    *config.mutable_endpoint() = flags.endpoint;
  }
  const absl::Status status =
      client.Recognize(config, flags.connection.Deadline(), source.next, take);
  return source.failure != nullptr && !source.failure->ok() ? *source.failure : status;
}

absl::StatusOr<NamedSource> OpenRecording(const std::string& path, const RecognizeFlags& flags) {
  BW_ASSIGN_OR_RETURN(Sound sound, OpenSound(path, flags.sound));
  return SourceOf(path, std::move(sound));
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
    std::error_code error;
    if (fs::is_directory(path, error)) {
      return Invalid(path, ": is a folder, which needs --output-dir DIR for its answers");
    }
    absl::StatusOr<NamedSource> source = OpenRecording(path, flags);
    if (!source.ok()) {
      return Annotate(source.status(), path);
    }
    sources.push_back(*std::move(source));
  }
  return sources;
}

struct Recording {
  std::string path;
  std::string name;  // of its answers, below --output-dir
};

// Recordings by path; in the place of a folder the recordings below it, which keep their
// subfolders. Links to folders are not followed. num_others: other files of folders. Files of one
// folder are sorted by path, since the file system lists them in any order.
absl::StatusOr<std::vector<Recording>> WithFilesOfFolders(const RecognizeFlags& flags,
                                                          int& num_others) {
  std::vector<Recording> recordings;
  for (const std::string& path : flags.files) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      recordings.push_back({path, fs::path(path).filename().string()});
      continue;
    }
    std::vector<Recording> inside;
    for (auto at = fs::recursive_directory_iterator(path, error); !error && at != fs::end(at);
         at.increment(error)) {
      if (!at->is_regular_file(error)) {
        continue;
      }
      if (IsRecording(at->path().string(), flags.sound)) {
        inside.push_back({at->path().string(), at->path().lexically_relative(path).string()});
      } else {
        ++num_others;
      }
    }
    if (error) {
      return Invalid(path, ": ", error.message());
    }
    std::sort(inside.begin(), inside.end(),
              [](const Recording& a, const Recording& b) { return a.path < b.path; });
    recordings.insert(recordings.end(), inside.begin(), inside.end());
  }
  return recordings;
}

// Without the answers of an earlier call, where FOLDER/* names them as well.
void RemoveAnswers(const RecognizeFlags& flags, std::vector<Recording>& recordings) {
  std::error_code error;
  const auto whole = [&error](const fs::path& path) { return fs::weakly_canonical(path, error); };
  const fs::path folder = flags.output_dir;
  std::set<fs::path> written = {whole(folder / ResultTable::kName)};
  for (const Recording& recording : recordings) {
    written.insert(whole(folder / (recording.name + flags.Extension())));
  }
  recordings.erase(std::remove_if(recordings.begin(), recordings.end(),
                                  [&](const Recording& recording) {
                                    return written.count(whole(recording.path)) > 0;
                                  }),
                   recordings.end());
}

// Answers of one recording into `file`, which appears when it is complete, behind its line in the
// table.
//
// 1. The recording is opened; a failure has a line in the table as well.
// 2. Its pieces are counted on their way, for the seconds of the table: bytes / bytes of a sample /
//    samples a second.
// 3. Answers go into NAME.part. If all went well, it is renamed to NAME, which is one step for
//    other programs and for a later run: a file of that name is always complete.
// 4. Otherwise it is removed.
absl::Status RecognizeInto(Client& client, const RecognizeFlags& flags, const Recording& recording,
                           const fs::path& file, ResultTable& table) {
  RecordingResult result;
  absl::StatusOr<NamedSource> opened = OpenRecording(recording.path, flags);
  if (!opened.ok()) {
    result.status = opened.status();
    table.Put(recording.name, result);
    return result.status;
  }
  constexpr int kUsualRate = 16000;
  NamedSource source = *std::move(opened);
  int64_t num_bytes = 0;
  source.next = [&num_bytes, next = std::move(source.next)](v1::RecognizeRequest& piece) {
    const bool is_there = next(piece);
    num_bytes += static_cast<int64_t>(piece.audio().size());
    return is_there;
  };
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path part = file.string() + ".part";
  std::ofstream out(part);
  SegmentPrinter printer(flags, out);
  result.status = RecognizeOne(client, flags, source, [&](const v1::RecognizeResponse& message) {
    for (const v1::RecognizedSegment& segment : message.segments()) {
      result.Add(segment);
    }
    return printer.Print(message);
  });
  out.close();
  if (!out) {
    result.status = absl::UnknownError(absl::StrCat("cannot write ", part.string()));
  }
  const int sample_bytes = source.format.samples() == v1::SAMPLE_FORMAT_F32 ? 4 : 2;
  const int rate = source.format.has_sample_rate() ? source.format.sample_rate() : kUsualRate;
  result.seconds = static_cast<double>(num_bytes) / sample_bytes / rate;
  table.Put(recording.name, result);
  if (result.status.ok()) {
    fs::rename(part, file, error);
    return error ? absl::UnknownError(absl::StrCat(file.string(), ": ", error.message()))
                 : result.status;
  }
  fs::remove(part, error);
  return result.status;
}

// Recordings one after the other, each into a file of --output-dir; those whose file is there are
// done.
//
// Two recordings of one name, as of two folders, would write one file: the second is a failure.
int RecognizeBatch(const CLI::App& command, Client& client, const RecognizeFlags& flags) {
  int num_others = 0;
  auto recordings = WithFilesOfFolders(flags, num_others);
  if (!recordings.ok()) {
    return UsageError(command, recordings.status().message());
  }
  RemoveAnswers(flags, *recordings);
  std::error_code error;
  fs::create_directories(flags.output_dir, error);
  if (error) {
    return UsageError(command, absl::StrCat("--output-dir: ", error.message()));
  }
  absl::StatusOr<ResultTable> table = ResultTable::Open(flags.output_dir);
  if (!table.ok()) {
    return UsageError(command, absl::StrCat("--output-dir: ", table.status().message()));
  }
  if (num_others > 0) {
    std::cerr << absl::StrFormat("passed over %d files that are no recordings\n", num_others);
  }
  size_t number = 0;
  size_t num_failed = 0;
  size_t num_done_before = 0;
  std::set<fs::path> written;
  for (const Recording& recording : *recordings) {
    const fs::path file = fs::path(flags.output_dir) / (recording.name + flags.Extension());
    const std::string label =
        absl::StrFormat("%d/%d %s", ++number, recordings->size(), Printable(recording.path));
    if (!written.insert(file).second) {
      ++num_failed;
      std::cerr << label << ": another recording has this name\n";
    } else if (fs::exists(file, error)) {
      ++num_done_before;
    } else if (const absl::Status status = RecognizeInto(client, flags, recording, file, *table);
               status.ok()) {
      std::cerr << label << "\n";
    } else {
      ++num_failed;
      std::cerr << label << ": " << Explain(status, flags.connection) << "\n";
    }
  }
  std::cerr << absl::StrFormat("%d recognised, %d were there, %d failed\n",
                               number - num_done_before - num_failed, num_done_before, num_failed);
  if (!table->Finish()) {
    return Failure(command, "cannot write results.tsv");
  }
  return num_failed == 0 ? kExitOk : kExitFailed;
}

int Recognize(const CLI::App& command, const RecognizeFlags& flags) {
  if (flags.files.empty() == flags.features.files.empty()) {
    return UsageError(command, flags.files.empty()
                                   ? "FILE or --features is missing; - reads standard input"
                                   : "FILE and --features exclude each other");
  }
  if (flags.json && flags.subtitles.has_value()) {
    return UsageError(command, *flags.subtitles == SubtitleForm::kSrt
                                   ? "--json and --srt exclude each other"
                                   : "--json and --vtt exclude each other");
  }
  if (!flags.output_dir.empty() && flags.files.empty()) {
    return UsageError(command, "--output-dir is for recordings");
  }
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  if (!flags.output_dir.empty()) {
    return RecognizeBatch(command, **client, flags);
  }
  auto sources = OpenSources(**client, flags);
  if (absl::IsInvalidArgument(sources.status())) {
    return UsageError(command, sources.status().message());
  }
  if (!sources.ok()) {
    return Failure(command, Explain(sources.status(), flags.connection));
  }
  int exit_code = kExitOk;
  SegmentPrinter printer(flags, std::cout);
  for (NamedSource& source : *sources) {
    if (sources->size() > 1) {
      printer.PrintName(source.name);
    }
    const absl::Status status =
        RecognizeOne(**client, flags, source,
                     [&](const v1::RecognizeResponse& message) { return printer.Print(message); });
    if (!status.ok()) {
      std::cout.flush();
      exit_code = Failure(
          command, absl::StrCat(Printable(source.name), ": ", Explain(status, flags.connection)));
    }
  }
  return exit_code;
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
  app->add_option_function<std::string>(
         "--language", [flags](const std::string& code) { flags->config.set_language(code); },
         "Of Whisper: a code such as de; auto: the model hears it.")
      ->type_name("CODE");
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
  app->add_flag_callback(
         "--srt", [flags] { flags->subtitles = SubtitleForm::kSrt; }, "Print subtitles (SubRip).")
      ->group("Output");
  app->add_flag_callback(
         "--vtt", [flags] { flags->subtitles = SubtitleForm::kVtt; }, "Print subtitles (WebVTT).")
      ->group("Output");
  app->add_option("--output-dir", flags->output_dir,
                  "Write DIR/NAME.wav.txt (.srt, .vtt, .jsonl) for each recording, and "
                  "DIR/results.tsv with a line for each; FILE may be a folder, of which the "
                  "recordings are read. Recordings whose file is there are skipped.")
      ->type_name("DIR")
      ->group("Output");
  app->footer(
      "A segment is printed when it ends: by default with its source, with --segments at pauses.\n"
      "Examples:\n"
      "  beamwright recognize talk.wav --model speech\n"
      "  arecord -q -f S16_LE -r 16000 -t wav | beamwright recognize - --segments --provisional\n"
      "  beamwright recognize talk.wav --segments --srt > talk.srt\n"
      "  beamwright recognize recordings --segments --vtt --output-dir subtitles\n"
      "Exit code: 0 all recognised, 1 a source or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return Recognize(*app, *flags); }};
}

}  // namespace beamwright::client
