// beamwright explain: why a hypothesis won, and why a target did not.
//
// 1. DecodeWithTrace decodes the source with the search's trace; WhyItWon prints the winner's steps
//    and what it was compared with.
// 2. For each --target: ScoreTargets asks for its score under the same options, and WhyItLost
//    follows it through the trace to the step in which the search dropped it. Where options draw at
//    random or depend on the search's course, the two scores cannot be compared, and the text says
//    so (ScoresAreComparable).
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/explanation.h"
#include "client/cli/flags.h"
#include "client/cli/sources.h"
#include "include/beamwright/client.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr char kExplainGroup[] = "Input";
constexpr int kDefaultTrace = 64;

struct ExplainFlags {
  std::string source;
  std::vector<std::string> targets;
  bool ids = false;
  ConnectionFlags connection;
  v1::DecodeRequest request;
  ExplanationOptions explanation;
};

// The targets' tokens and scores, as a search with these options would report them.
v1::ScoreRequest ScoreRequestOf(const v1::DecodeRequest& decode,
                                const std::vector<v1::TargetTokens>& targets) {
  v1::ScoreRequest request;
  request.set_model(decode.model());
  request.set_version(decode.version());
  v1::ScoreSource& source = *request.add_sources();
  *source.mutable_source() = decode.sources(0);
  source.mutable_targets()->Add(targets.begin(), targets.end());
  const v1::DecodeOptions& from = decode.options();
  v1::ScoreOptions& to = *request.mutable_options();
  *to.mutable_fusion() = from.fusion();
  if (from.has_length_penalty()) {
    to.set_length_penalty(from.length_penalty());
  }
  if (from.has_length_penalty_alpha()) {
    to.set_length_penalty_alpha(from.length_penalty_alpha());
  }
  if (from.has_word_reward()) {
    to.set_word_reward(from.word_reward());
  }
  if (from.has_coverage_penalty()) {
    to.set_coverage_penalty(from.coverage_penalty());
  }
  return request;
}

// Options whose part in a score cannot be had for a given target.
bool ScoresAreComparable(const v1::DecodeOptions& options) {
  return options.sampling() <= v1::SAMPLING_NONE && options.hotwords().empty() &&
         !options.has_soft_prefix() && !options.has_target_prefix();
}

absl::StatusOr<v1::Decoded> DecodeWithTrace(Client& client, const ExplainFlags& flags) {
  BW_ASSIGN_OR_RETURN(v1::DecodeResponse response,
                      client.Decode(flags.request, flags.connection.Deadline()));
  if (response.results_size() != 1) {
    return absl::InternalError(
        absl::StrCat("the server gave ", response.results_size(), " results for one source"));
  }
  BW_RETURN_IF_ERROR(ResultStatus(response.results(0)));
  const v1::Decoded& decoded = response.results(0).decoded();
  if (!decoded.has_trace()) {
    return absl::UnimplementedError(
        "the answer has no trace: the server is too old for it, or does not permit it");
  }
  if (decoded.hypotheses().empty()) {
    return absl::NotFoundError("the answer has no hypothesis, so none won");
  }
  return decoded;
}

absl::StatusOr<v1::Scored> ScoreTargets(Client& client, const v1::ScoreRequest& request,
                                        absl::Time deadline) {
  BW_ASSIGN_OR_RETURN(const v1::ScoreResponse response, client.Score(request, deadline));
  if (response.results_size() != 1) {
    return absl::InternalError(
        absl::StrCat("the server gave ", response.results_size(), " scores for one source"));
  }
  BW_RETURN_IF_ERROR(ResultStatus(response.results(0)));
  if (response.results(0).scored().targets_size() != request.sources(0).targets_size()) {
    return absl::InternalError("the server did not score every target");
  }
  return response.results(0).scored();
}

// Gives names to tokens of a target that the trace does not have: its words, where they are as
// many.
void NameTokens(const v1::Hypothesis& target, v1::SearchTrace& trace) {
  const std::vector<std::string> words = absl::StrSplit(target.text(), ' ');
  const auto num_tokens = static_cast<size_t>(target.tokens_size());
  const bool ended = target.finish_reason() == v1::FINISH_REASON_EOS;
  if (words.size() + (ended ? 1 : 0) != num_tokens) {
    return;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    trace.mutable_token_texts()->insert({target.tokens(static_cast<int>(i)), words[i]});
  }
}

int RunExplain(const CLI::App& command, ExplainFlags& flags) {
  if (flags.request.options().has_trace() && flags.request.options().trace() == 0) {
    return UsageError(command, "--trace: 0 leaves nothing to explain; 1 to 1024 are allowed");
  }
  if (!flags.request.options().has_trace()) {
    flags.request.mutable_options()->set_trace(kDefaultTrace);
  }
  if (auto status = SetTextOrIds(flags.source, flags.ids, *flags.request.add_sources());
      !status.ok()) {
    return UsageError(command, absl::StrCat("SOURCE: ", status.message()));
  }
  std::vector<v1::TargetTokens> targets(flags.targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (auto status = SetTextOrIds(flags.targets[i], flags.ids, targets[i]); !status.ok()) {
      return UsageError(command, absl::StrCat("--target: ", status.message()));
    }
  }
  const v1::Sampling sampling = flags.request.options().sampling();
  flags.explanation.drawn = sampling > v1::SAMPLING_NONE;
  flags.explanation.comparable = ScoresAreComparable(flags.request.options());
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  auto decoded = DecodeWithTrace(**client, flags);
  if (!decoded.ok()) {
    return Failure(command, Explain(decoded.status(), flags.connection));
  }
  std::cout << AnswerTable(SourceText(flags.request.sources(0)), *decoded) << "\n"
            << WhyItWon(*decoded, flags.explanation) << std::flush;
  if (targets.empty()) {
    return kExitOk;
  }
  const auto scored =
      ScoreTargets(**client, ScoreRequestOf(flags.request, targets), flags.connection.Deadline());
  if (!scored.ok()) {
    return Failure(command, absl::StrCat("--target: ", Explain(scored.status(), flags.connection)));
  }
  for (const v1::ScoredTarget& target : scored->targets()) {
    NameTokens(target.hypothesis(), *decoded->mutable_trace());
    std::cout << "\n" << WhyItLost(*decoded, target.hypothesis(), flags.explanation);
  }
  return kExitOk;
}

}  // namespace

Command AddExplainCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "explain", "Show step by step why a hypothesis won and what became of others.");
  auto flags = std::make_shared<ExplainFlags>();
  app->add_option("SOURCE", flags->source, "What is decoded.")->required()->group(kExplainGroup);
  app->add_option("--target", flags->targets,
                  "Show what became of this target in the search. May be repeated.")
      ->take_all()
      ->type_name("TEXT")
      ->group(kExplainGroup);
  app->add_flag("--ids", flags->ids,
                "Source and targets are token ids, separated by spaces or commas.")
      ->group(kExplainGroup);
  AddModelFlags(*app, flags->request);
  AddConnectionFlags(*app, flags->connection);
  AddIntFlag(*app,
             {"--steps", "Output", "Steps that are shown of each hypothesis, its first and last."},
             2, 10'000, flags->explanation.max_steps);
  AddMessageFlags(*app, "Other options", *flags->request.mutable_options());
  app->footer(
      "Asks for the search's trace (64 dropped candidates a step unless --trace says otherwise) "
      "and\n"
      "shows it; docs/decoding.md, 'Trace', defines the output.\n"
      "Examples:\n"
      "  beamwright explain read --target \"R EH1 D\"\n"
      "  beamwright explain read --beam-size 1 --length-penalty pow:0.6\n"
      "Exit code: 0 explained, 1 the source, a target or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return RunExplain(*app, *flags); }};
}

}  // namespace beamwright::client
