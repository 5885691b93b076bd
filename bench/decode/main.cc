// beamwright-bench: how fast a model decodes on this machine. docs/performance.md.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench/decode/options.h"
#include "bench/decode/precision.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/proto_text.h"
#include "engine/model/decode_model.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/base/vector_isa.h"
#include "tools/bundle/cost.h"

namespace beamwright::bench {
namespace {

using tools::BenchDecode;
using tools::DecodeCase;
using tools::DecodeResult;
using tools::RandomSources;
using tools::ReadFeatures;
using tools::ReadSources;
using tools::ResultsJson;
using tools::ResultsText;

struct Flags {
  std::string model;
  std::string sources;
  std::string random;
  std::string features;
  std::string options;
  std::vector<std::string> precisions = {"model"};
  int beam = 0;
  std::vector<int> concurrency = {1};
  std::vector<int> threads = {1};
  std::vector<int> streams = {engine::EngineOptions::kStreamsAsWorkIs};
  int max_length = 0;
  bool fixed_length = false;
  double seconds = 3;
  bool json = false;
  std::string most_isa;
  engine::CompileOptions compile;
};

void AddModel(CLI::App& command, Flags& flags) {
  command.add_option("--model", flags.model, "Bundle folder")->type_name("DIR")->required();
}

// help: what is measured for so long.
void AddSeconds(CLI::App& command, Flags& flags, const char* help) {
  command.add_option("--seconds", flags.seconds, help)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void AddFlags(CLI::App& decode, Flags& flags) {
  AddModel(decode, flags);
  auto* const sources = decode.add_option_group("sources")->require_option(1);
  sources->add_option("--sources", flags.sources, "One source a line, as text")->type_name("FILE");
  sources->add_option("--random", flags.random, "N random sources of LENGTHS ids: 100:20, 100:5-30")
      ->type_name("N:LENGTHS");
  sources
      ->add_option("--features", flags.features,
                   "NumPy .npz file; each of its arrays, f32, is a source of features")
      ->type_name("FILE");
  std::vector<std::string> precisions = engine::AllPrecisionNames();
  precisions.insert(precisions.begin(), "model");
  decode
      .add_option("--precision", flags.precisions,
                  "Form of the weights; a case for each. 'model': as the bundle says")
      ->delimiter(',')
      ->check(CLI::IsMember(precisions))
      ->capture_default_str();
  decode.add_option("--beam", flags.beam, "Beam size; unset: the model's default")
      ->check(CLI::Range(1, 256));
  decode
      .add_option("--concurrency", flags.concurrency, "Requests in flight; a case for each number")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  decode.add_option("--threads", flags.threads, "Compute threads; a case for each number")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  decode
      .add_option(
          "--streams", flags.streams,
          "Engine threads that share them, as --inference-streams of the server (0: as many as "
          "there is work for); a case for each number")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  decode
      .add_option("--max-length", flags.max_length,
                  "Most tokens to generate; unset: as the model says")
      ->check(CLI::Range(1, 65536));
  decode
      .add_option("--options", flags.options,
                  "File with more options, as DecodeOptions in protobuf's text form")
      ->type_name("FILE");
  decode.add_flag("--fixed-length", flags.fixed_length, "Never stop before the most tokens");
  decode
      .add_option("--most-isa", flags.most_isa,
                  "Widest vector instructions that kernels may use; unset: the CPU's")
      ->check(CLI::IsMember({"plain", "avx2", "avx512"}));
  AddSeconds(decode, flags, "How long each case runs");
  decode.add_flag("--json", flags.json, "Print a JSON array, not a table");
}

absl::StatusOr<std::vector<v1::Source>> Sources(const Flags& flags,
                                                const engine::DecodeModel& model) {
  if (!flags.sources.empty()) {
    return ReadSources(flags.sources);
  }
  if (!flags.features.empty()) {
    return ReadFeatures(flags.features);
  }
  const std::vector<std::string> parts = absl::StrSplit(flags.random, ':');
  const std::vector<std::string> lengths = absl::StrSplit(parts.back(), absl::MaxSplits('-', 1));
  int count = 0;
  int shortest = 0;
  int longest = 0;
  constexpr int kMost = 1 << 20;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &count) ||
      !absl::SimpleAtoi(lengths.front(), &shortest) ||
      !absl::SimpleAtoi(lengths.back(), &longest) || count < 1 || shortest < 1 ||
      longest < shortest || count > kMost || longest > kMost) {
    return Invalid("--random: '", flags.random, "' is not N:LENGTH or N:SHORTEST-LONGEST");
  }
  return RandomSources(model, count, shortest, longest);
}

absl::StatusOr<std::shared_ptr<const engine::DecodeModel>> Compile(const std::string& folder,
                                                                   const std::string& precision,
                                                                   engine::CompileOptions options) {
  if (precision != "model") {
    BW_ASSIGN_OR_RETURN(options.precision, engine::ParseAnyPrecision(precision));
  }
  BW_ASSIGN_OR_RETURN(bundle::Bundle bundle, bundle::LoadBundle(folder));
  return engine::DecodeModel::Compile(std::move(bundle), options);
}

absl::StatusOr<DecodeCase> CaseOf(const Flags& flags) {
  DecodeCase bench_case;
  bench_case.seconds = flags.seconds;
  if (!flags.options.empty()) {
    BW_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.options));
    const absl::Status parsed = bundle::ParseTextProto(text, bench_case.options);
    if (!parsed.ok()) {
      return Annotate(parsed, absl::StrCat("--options '", flags.options, "'"));
    }
  }
  if (flags.beam > 0) {
    bench_case.options.set_beam_size(flags.beam);
  }
  if (flags.max_length > 0) {
    bench_case.options.set_max_length(flags.max_length);
  }
  if (flags.fixed_length) {
    bench_case.options.set_stop(v1::STOP_MODE_NEVER);
  }
  return bench_case;
}

absl::Status Decode(const Flags& flags) {
  const ScopedVectorIsa held_to(flags.most_isa == "plain"    ? VectorIsa::kPlain
                                : flags.most_isa == "avx2"   ? VectorIsa::kAvx2
                                : flags.most_isa == "avx512" ? VectorIsa::kAvx512
                                                             : VectorIsa::kAmx);
  BW_ASSIGN_OR_RETURN(DecodeCase bench_case, CaseOf(flags));
  std::vector<DecodeResult> results;
  for (const std::string& precision : flags.precisions) {
    BW_ASSIGN_OR_RETURN(const std::shared_ptr<const engine::DecodeModel> model,
                        Compile(flags.model, precision, flags.compile));
    BW_ASSIGN_OR_RETURN(const std::vector<v1::Source> sources, Sources(flags, *model));
    for (const int threads : flags.threads) {
      for (const int streams : flags.streams) {
        for (const int concurrency : flags.concurrency) {
          bench_case.threads = threads;
          bench_case.streams = streams;
          bench_case.concurrency = concurrency;
          BW_ASSIGN_OR_RETURN(results.emplace_back(), BenchDecode(model, sources, bench_case));
          results.back().precision = precision;
        }
      }
    }
  }
  std::fputs((flags.json ? ResultsJson(results) : ResultsText(results)).c_str(), stdout);
  return absl::OkStatus();
}

void AddTokenTables(CLI::App& decode, Flags& flags) {
  decode
      .add_option("--token-tables", flags.compile.token_table_share,
                  "Most memory for tables per token, in multiples of the decoder's weights")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
}

void AddPrecisionFlags(CLI::App& precision, Flags& flags) {
  AddModel(precision, flags);
  precision
      .add_option("--sources", flags.sources,
                  "One source a line, as text; unset: the bundle's golden requests")
      ->type_name("FILE");
  precision
      .add_option("--beam", flags.beam, "Beam size and n-best of --sources; unset: the model's")
      ->check(CLI::Range(1, 256));
  precision.add_flag("--json", flags.json, "Print a JSON array, not a table");
}

absl::Status ComparePrecisions(const Flags& flags) {
  std::vector<DecodeRequest> requests;
  if (flags.sources.empty()) {
    BW_ASSIGN_OR_RETURN(requests, ReadGoldenRequests(flags.model));
  } else {
    BW_ASSIGN_OR_RETURN(std::vector<v1::Source> sources, ReadSources(flags.sources));
    for (v1::Source& source : sources) {
      requests.emplace_back().source = std::move(source);
      if (flags.beam > 0) {
        requests.back().options.set_beam_size(flags.beam);
        requests.back().options.set_n_best(flags.beam);
      }
    }
  }
  BW_ASSIGN_OR_RETURN(const std::vector<PrecisionShift> shifts,
                      MeasurePrecisions(flags.model, requests));
  std::fputs((flags.json ? ShiftsJson(shifts) : ShiftsText(shifts)).c_str(), stdout);
  return absl::OkStatus();
}

void AddOptionsFlags(CLI::App& options, Flags& flags) {
  AddModel(options, flags);
  options.add_option("--sources", flags.sources, "One source a line, as text")
      ->type_name("FILE")
      ->required();
  options.add_option("--concurrency", flags.concurrency, "Requests in flight")
      ->expected(1)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  AddSeconds(options, flags, "How long each option is measured");
}

absl::Status CompareOptions(const Flags& flags) {
  BW_ASSIGN_OR_RETURN(const std::vector<v1::Source> sources, ReadSources(flags.sources));
  BW_ASSIGN_OR_RETURN(
      const std::vector<OptionCost> costs,
      MeasureOptions(flags.model, sources, flags.concurrency.front(), flags.seconds));
  std::fputs(CostsText(costs).c_str(), stdout);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("Measures decoding on this machine, without a server.", "beamwright-bench");
  app.require_subcommand(1);
  app.set_version_flag("--version", "beamwright-bench " BEAMWRIGHT_VERSION);
  Flags flags;
  CLI::App& decode =
      *app.add_subcommand("decode", "Decode sources with beam search, over and over");
  AddFlags(decode, flags);
  AddTokenTables(decode, flags);
  CLI::App* const precision =
      app.add_subcommand("precision", "How far answers in bf16 and int8 are from those in f32");
  AddPrecisionFlags(*precision, flags);
  CLI::App* const options =
      app.add_subcommand("options", "What each option of a request costs, against none");
  AddOptionsFlags(*options, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::Status status = precision->parsed() ? ComparePrecisions(flags)
                              : options->parsed() ? CompareOptions(flags)
                                                  : Decode(flags);
  if (!status.ok()) {
    std::fprintf(stderr, "beamwright-bench: %s\n", status.ToString().c_str());
    return 1;
  }
  if (std::fflush(stdout) != 0) {
    std::fprintf(stderr, "beamwright-bench: cannot write to standard output\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace beamwright::bench

int main(int argc, char** argv) { return beamwright::bench::Main(argc, argv); }
