// beamwright score and beamwright align: given targets instead of a search.
//
// GivenReader reads sources with their targets, from the arguments or line by line. Run collects
// them in batches and hands each to Score or Align, which make one call of a batch and print its
// results in the order of the input. A source that fails is reported and counted; a fault that
// every call would have, such as an unknown model, ends the command.
//
// A line of the input is a source and its targets with tabs between, "read<tab>R EH1 D<tab>R IY1
// D". What score prints for it:
//
//   read
//          score    log-prob  perplexity  target
//        -0.2101     -0.8404      1.2338  R EH1 D
//        -1.9022     -7.6088      6.7007  R IY1 D
//
// align prints "R-0 EH1-1 D-3": each token with the position of the source that it comes from, from
// 0.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <istream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "beamwright/v1/decode.pb.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/flags.h"
#include "client/cli/output.pb.h"
#include "client/cli/sources.h"
#include "include/beamwright/client.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

// Where `score` and `align` take sources with their targets from: arguments, a file, or standard
// input, whose lines are a source and its targets with tabs between.
struct GivenFlags {
  std::vector<std::string> words;  // the source, then targets
  std::string file;
  bool ids = false;
  std::string model;
  std::string version;
};

// Reads sources with their targets. For one thread.
class GivenReader {
 public:
  // InvalidArgument: arguments and a file, or a file that cannot be read.
  static absl::StatusOr<std::unique_ptr<GivenReader>> Open(const GivenFlags& flags);

  // False at the end. InvalidArgument names the line that has no target, or what is not an id.
  absl::StatusOr<bool> Next(v1::ScoreSource& given);

 private:
  explicit GivenReader(const GivenFlags& flags) : flags_(flags) {}

  const GivenFlags& flags_;
  std::ifstream file_;
  std::istream* stream_ = nullptr;  // null: words
  int64_t num_read_ = 0;
};

constexpr char kGivenGroup[] = "Input";

// SOURCE TARGET..., --file, --ids, --model and --version. `flags` must outlive the parsing.
void AddGivenFlags(CLI::App& app, GivenFlags& flags) {
  app.add_option("SOURCE TARGET", flags.words, "A source, and what it is to be compared with.")
      ->group(kGivenGroup);
  app.add_option("--file", flags.file,
                 "Read lines of SOURCE, tab, TARGET from this file; - is standard input.")
      ->type_name("PATH")
      ->group(kGivenGroup);
  app.add_flag("--ids", flags.ids,
               "Sources and targets are token ids, separated by spaces or commas.")
      ->group(kGivenGroup);
  AddModelFlag(app, flags.model);
  AddVersionFlag(app, flags.version);
}

absl::StatusOr<std::unique_ptr<GivenReader>> GivenReader::Open(const GivenFlags& flags) {
  std::unique_ptr<GivenReader> reader(new GivenReader(flags));
  if (!flags.words.empty() && !flags.file.empty()) {
    return Invalid("targets are given both as arguments and by --file; use one of them");
  }
  if (!flags.words.empty()) {
    return reader;
  }
  if (flags.file.empty() || flags.file == "-") {
    reader->stream_ = &std::cin;
    return reader;
  }
  reader->file_.open(flags.file);
  if (!reader->file_) {
    return Invalid("--file: cannot read ", flags.file);
  }
  reader->stream_ = &reader->file_;
  return reader;
}

absl::StatusOr<bool> GivenReader::Next(v1::ScoreSource& given) {
  std::vector<std::string> pieces;
  if (stream_ == nullptr) {
    if (num_read_ > 0) {
      return false;
    }
    pieces = flags_.words;
  } else {
    std::string line;
    if (!std::getline(*stream_, line)) {
      if (stream_->bad()) {
        return absl::DataLossError("reading broke off before the end");
      }
      return false;
    }
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    pieces = absl::StrSplit(line, '\t');
  }
  ++num_read_;
  const std::string where = stream_ == nullptr ? "the arguments" : absl::StrCat("line ", num_read_);
  if (pieces.size() < 2) {
    return Invalid(where, stream_ == nullptr ? " have" : " has",
                   " a source but no target behind it");
  }
  given.Clear();
  BW_RETURN_IF_ERROR(Annotate(SetTextOrIds(pieces[0], flags_.ids, *given.mutable_source()), where));
  for (size_t i = 1; i < pieces.size(); ++i) {
    BW_RETURN_IF_ERROR(Annotate(SetTextOrIds(pieces[i], flags_.ids, *given.add_targets()), where));
  }
  return true;
}

struct Flags {
  GivenFlags given;
  ConnectionFlags connection;
  v1::ScoreOptions options;
  bool soft = false;
  int batch = 32;
  bool json = false;
};

std::string TargetText(const v1::TargetTokens& target) {
  return target.has_ids() ? absl::StrCat("ids ", absl::StrJoin(target.ids().ids(), " "))
                          : Printable(target.text());
}

std::string ScoreTable(const v1::ScoreSource& source, const v1::Scored& scored) {
  std::string table = absl::StrCat(Bold(SourceText(source.source())), "\n");
  absl::StrAppendFormat(&table, "  %10s  %10s  %10s  target\n", "score", "log-prob", "perplexity");
  for (int i = 0; i < scored.targets_size(); ++i) {
    const v1::ScoredTarget& target = scored.targets(i);
    absl::StrAppendFormat(&table, "  %10.4f  %10.4f  %10.4f  %s\n", target.hypothesis().score(),
                          target.hypothesis().log_prob(), target.perplexity(),
                          TargetText(source.targets(i)));
  }
  return table;
}

std::string AlignmentLine(const v1::AlignPair& pair, const v1::Alignment& alignment) {
  return absl::StrCat(
      Bold(SourceText(pair.source())), "\n  ",
      AlignedTokens(pair.target().text(), alignment.tokens(), alignment.positions()), "\n");
}

// A call that failed for its sources is reported source by source, and others go on. An error that
// every call would have, as an unknown model, stays the call's.
template <typename Response>
absl::StatusOr<Response> ResultsOf(absl::StatusOr<Response> response, int num_sources) {
  return FailsEveryCall(response.status()) ? response
                                           : WithErrorsInResults(std::move(response), num_sources);
}

// Sends what is read in calls of `batch`; `call` makes one and prints it. Returns the exit code.
template <typename Call>
int Run(const CLI::App& command, const Flags& flags, const Call& call) {
  auto reader = GivenReader::Open(flags.given);
  if (!reader.ok()) {
    return UsageError(command, reader.status().message());
  }
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  int num_failed = 0;
  for (bool more = true; more;) {
    std::vector<v1::ScoreSource> batch;
    v1::ScoreSource given;
    while (static_cast<int>(batch.size()) < flags.batch) {
      const absl::StatusOr<bool> read = (*reader)->Next(given);
      if (!read.ok()) {
        return UsageError(command, read.status().message());
      }
      more = *read;
      if (!more) {
        break;
      }
      batch.push_back(given);
    }
    if (batch.empty()) {
      break;
    }
    if (absl::Status status = call(**client, batch, num_failed); !status.ok()) {
      return Failure(command, Explain(status, flags.connection));
    }
    std::cout.flush();
  }
  return num_failed == 0 ? kExitOk : kExitFailed;
}

void ReportFailure(const CLI::App& command, const v1::Source& source, const absl::Status& status) {
  std::cout.flush();
  Failure(command, absl::StrCat("\"", SourceText(source), "\": ", CodeAndMessage(status)));
}

int Score(const CLI::App& command, const Flags& flags) {
  return Run(
      command, flags, [&](Client& client, std::vector<v1::ScoreSource>& batch, int& num_failed) {
        v1::ScoreRequest request;
        request.set_model(flags.given.model);
        request.set_version(flags.given.version);
        *request.mutable_options() = flags.options;
        request.mutable_sources()->Add(batch.begin(), batch.end());
        BW_ASSIGN_OR_RETURN(
            const v1::ScoreResponse response,
            ResultsOf(client.Score(request, flags.connection.Deadline()), request.sources_size()));
        for (int i = 0; i < response.results_size(); ++i) {
          const v1::ScoreSource& source = batch[static_cast<size_t>(i)];
          const v1::ScoreResult& result = response.results(i);
          if (absl::Status status = ResultStatus(result); !status.ok()) {
            ++num_failed;
            ReportFailure(command, source.source(), status);
          }
          if (flags.json) {
            ScoredSource output;
            *output.mutable_source() = source;
            *output.mutable_result() = result;
            output.set_model(response.model());
            output.set_version(response.version());
            output.set_numerics(response.numerics());
            std::cout << ToJson(output, /*pretty=*/false);
          } else if (result.has_scored()) {
            std::cout << ScoreTable(source, result.scored());
          }
        }
        return absl::OkStatus();
      });
}

// Each target of a source becomes a pair of the request, so that a source with three targets gives
// three lines.
int Align(const CLI::App& command, const Flags& flags) {
  return Run(
      command, flags, [&](Client& client, std::vector<v1::ScoreSource>& batch, int& num_failed) {
        v1::AlignRequest request;
        request.set_model(flags.given.model);
        request.set_version(flags.given.version);
        request.set_soft(flags.soft);
        for (const v1::ScoreSource& source : batch) {
          for (const v1::TargetTokens& target : source.targets()) {
            v1::AlignPair& pair = *request.add_pairs();
            *pair.mutable_source() = source.source();
            *pair.mutable_target() = target;
          }
        }
        BW_ASSIGN_OR_RETURN(
            const v1::AlignResponse response,
            ResultsOf(client.Align(request, flags.connection.Deadline()), request.pairs_size()));
        for (int i = 0; i < response.results_size(); ++i) {
          const v1::AlignPair& pair = request.pairs(i);
          const v1::AlignResult& result = response.results(i);
          if (absl::Status status = ResultStatus(result); !status.ok()) {
            ++num_failed;
            ReportFailure(command, pair.source(), status);
          }
          if (flags.json) {
            AlignedPair output;
            *output.mutable_pair() = pair;
            *output.mutable_result() = result;
            output.set_model(response.model());
            output.set_version(response.version());
            output.set_numerics(response.numerics());
            std::cout << ToJson(output, /*pretty=*/false);
          } else if (result.has_alignment()) {
            std::cout << AlignmentLine(pair, result.alignment());
          }
        }
        return absl::OkStatus();
      });
}

void AddCommonFlags(CLI::App& app, Flags& flags) {
  AddGivenFlags(app, flags.given);
  AddConnectionFlags(app, flags.connection);
  AddIntFlag(app, {"--batch", kConnectionGroup, "Sources sent in one call."}, 1, 4096, flags.batch);
  app.add_flag("--json", flags.json, "Print one JSON object a source, each on a line.")
      ->group("Output");
}

}  // namespace

Command AddScoreCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("score", "Score given targets for their sources.");
  auto flags = std::make_shared<Flags>();
  AddCommonFlags(*app, *flags);
  AddMessageFlags(*app, "Scoring", flags->options);
  app->footer(
      "Without arguments and --file, lines of standard input are read: a source and one or more\n"
      "targets, with tabs between. Scores are those that decode would report for the same tokens.\n"
      "Examples:\n"
      "  beamwright score read \"R EH1 D\" \"R IY1 D\"\n"
      "  beamwright score --file pairs.tsv --length-penalty pow:0.6 --json > scores.jsonl\n"
      "Exit code: 0 all scored, 1 a source or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return Score(*app, *flags); }};
}

Command AddAlignCommand(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("align", "Show which source position each target token comes from.");
  auto flags = std::make_shared<Flags>();
  AddCommonFlags(*app, *flags);
  app->add_flag("--soft", flags->soft, "With --json: also print all attention weights.")
      ->group("Output");
  app->footer(
      "Prints TOKEN-POSITION for each token, positions counted from 0. Needs a model with\n"
      "attention (attention_output in its bundle).\n"
      "Example:\n"
      "  beamwright align read \"R EH1 D\"\n"
      "Exit code: 0 all aligned, 1 a source or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return Align(*app, *flags); }};
}

}  // namespace beamwright::client
