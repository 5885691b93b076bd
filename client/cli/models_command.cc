// beamwright models: what a server serves. Without a name a table of all models with their states
// (PrintTable); with one, everything that the server says of it: sources and targets, batching,
// streaming, scorers, limits and the bundle's configuration (PrintDescription). Texts of bundles
// are printed with control characters escaped.
//
// An example of the table, and of the first lines of a description:
//
//   name    version  state
//   g2p-en  1        ready: stable
//   speech  3        not ready: encoder.onnx: no such file
//
//   g2p-en, version 1
//   state               ready: stable
//   steps rows          of all requests together
//   source vocabulary   29 ids
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/features.h"
#include "client/cli/flags.h"
#include "client/cli/output.pb.h"
#include "google/protobuf/text_format.h"

namespace beamwright::client {

namespace {

struct ModelsFlags {
  std::string model;
  std::string version;
  ConnectionFlags connection;
  bool json = false;
};

// "ready: label, label; not loaded again: why", or "not ready: why".
std::string State(const v1::ModelSummary& model) {
  if (model.ready()) {
    // With another reason it is served as it was, because what its folder holds now is not good.
    return absl::StrCat("ready", model.labels().empty() ? "" : ": ",
                        Printable(absl::StrJoin(model.labels(), ", ")),
                        model.reason().empty()  ? ""
                        : model.not_in_memory() ? "; "
                                                : "; not loaded again: ",
                        Printable(model.reason()));
  }
  return model.reason().empty() ? "not ready" : "not ready: " + Printable(model.reason());
}

void PrintTable(const v1::ListModelsResponse& response) {
  size_t name_width = 4, version_width = 7;
  for (const v1::ModelSummary& model : response.models()) {
    name_width = std::max(name_width, Printable(model.name()).size());
    version_width = std::max(version_width, Printable(model.version()).size());
  }
  const auto row = [&](absl::string_view name, absl::string_view version, absl::string_view rest) {
    return absl::StrFormat("%-*s  %-*s  %s", static_cast<int>(name_width), name,
                           static_cast<int>(version_width), version, rest);
  };
  std::cout << Bold(row("name", "version", "state")) << "\n";
  for (const v1::ModelSummary& model : response.models()) {
    std::cout << row(Printable(model.name()), Printable(model.version()), State(model)) << "\n";
    if (!model.description().empty()) {
      std::cout << row("", "", Printable(model.description())) << "\n";
    }
  }
}

void PrintTensors(absl::string_view title,
                  const google::protobuf::RepeatedPtrField<v1::TensorDescription>& tensors) {
  for (const v1::TensorDescription& tensor : tensors) {
    std::cout << absl::StrFormat("%-18s  %s %s [%s]%s\n", title, Printable(tensor.name()),
                                 Printable(tensor.dtype()), absl::StrJoin(tensor.shape(), ", "),
                                 tensor.has_default() ? ", may be left out" : "");
  }
}

// "chunks of 45 frames, the next 32 later; words come 130 to 450 ms after they were said".
std::string DescribeStreaming(const v1::StreamingDescription& streaming) {
  std::string text = absl::StrCat("chunks of ", streaming.chunk(), " frames, the next ",
                                  streaming.shift(), " later");
  if (streaming.chunk_ms() > 0) {
    absl::StrAppend(&text, "; what is said is read ", streaming.look_ahead_ms(), " to ",
                    streaming.chunk_ms(), " ms later");
  }
  return text;
}

// What DecodeOptions.fusion may name, with the kind of each.
std::string DescribeScorers(const v1::ModelConfig& config) {
  // A transducer has this one without configuration, unless the bundle gives the name to another.
  constexpr char kInternal[] = "internal_lm";
  bool has_internal = config.has_transducer();
  std::vector<std::string> scorers;
  for (const v1::ScorerConfig& scorer : config.scorers()) {
    has_internal = has_internal && scorer.name() != kInternal;
    scorers.push_back(absl::StrCat(Printable(scorer.name()), scorer.has_ngram() ? " (n-gram model)"
                                                             : scorer.has_language_model()
                                                                 ? " (language model)"
                                                                 : " (CTC)"));
  }
  if (has_internal) {
    scorers.push_back(absl::StrCat(kInternal, " (what the transducer itself has learnt)"));
  }
  return absl::StrJoin(scorers, ", ");
}

// A line for each fact that the server gives: what it is, how requests share work, what a source
// is, what targets are made of, and which tensors a request may bring; the configuration last, as
// text.
void PrintDescription(const v1::ModelDescription& model) {
  const auto line = [](absl::string_view title, absl::string_view text) {
    if (!text.empty()) {
      std::cout << absl::StrFormat("%-18s  %s\n", title, text);
    }
  };
  std::cout << Bold(absl::StrCat(Printable(model.summary().name()), ", version ",
                                 Printable(model.summary().version())))
            << "\n";
  line("description", Printable(model.summary().description()));
  line("state", State(model.summary()));
  line("numerics", Printable(model.numerics()));
  if (model.has_encoder_batching()) {
    line("encodes sources", model.encoder_batching().together()
                                ? "of several requests together"
                                : absl::StrCat("one at a time, because ",
                                               Printable(model.encoder_batching().reason())));
  }
  if (model.has_length_batching()) {
    line("unequal lengths", model.length_batching().together()
                                ? "encoded together"
                                : absl::StrCat("encoded apart, because ",
                                               Printable(model.length_batching().reason())));
  }
  if (model.has_step_batching()) {
    line("steps rows",
         model.step_batching().together()
             ? "of all requests together"
             : absl::StrCat("one at a time, because ", Printable(model.step_batching().reason())));
  }
  if (model.config().has_picture()) {
    line("source", "pictures, PNG or JPEG");
  }
  if (TakesFeatures(model)) {
    line(model.config().has_picture() ? "or" : "source",
         absl::StrCat("features ", Printable(DescribeFeatures(model))));
  } else {
    line("source vocabulary", absl::StrCat(WithCommas(model.source_vocabulary_size()), " ids"));
  }
  if (model.has_streaming()) {
    line("reads", DescribeStreaming(model.streaming()));
    line("a stream holds",
         absl::StrCat(WithCommas(model.streaming().state_bytes()), " bytes of states"));
  }
  for (const v1::TensorDescription& input : model.further_inputs()) {
    line("further input", Printable(DescribeFurtherInput(input)));
  }
  line("target vocabulary", absl::StrCat(WithCommas(model.target_vocabulary_size()), " ids"));
  line("scorers", DescribeScorers(model.config()));
  PrintTensors("memory input", model.memory());
  PrintTensors("state input", model.states());
  std::string config;
  google::protobuf::TextFormat::PrintToString(model.config(), &config);
  if (!config.empty()) {
    std::cout << "\n" << Bold("configuration") << "\n" << config;
  }
}

// A table without a name, one model's description with it; both as JSON with --json, which is the
// server's message.
int Models(const CLI::App& command, const ModelsFlags& flags) {
  if (flags.model.empty() && !flags.version.empty()) {
    return UsageError(command, "--version needs the name of a model");
  }
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  if (flags.model.empty()) {
    const auto models = (*client)->ListModels(flags.connection.Deadline());
    if (!models.ok()) {
      return Failure(command, Explain(models.status(), flags.connection));
    }
    if (flags.json) {
      std::cout << ToJson(*models, /*pretty=*/true);
    } else {
      PrintTable(*models);
    }
    return kExitOk;
  }
  const auto model =
      (*client)->DescribeModel(flags.model, flags.version, flags.connection.Deadline());
  if (!model.ok()) {
    return Failure(command, Explain(model.status(), flags.connection));
  }
  if (flags.json) {
    std::cout << ToJson(*model, /*pretty=*/true);
  } else {
    PrintDescription(*model);
  }
  return kExitOk;
}

}  // namespace

Command AddModelsCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("models", "List the models served, or describe one.");
  auto flags = std::make_shared<ModelsFlags>();
  app->add_option("NAME", flags->model, "Describe this model.")->group("Input");
  AddVersionFlag(*app, flags->version);
  AddConnectionFlags(*app, flags->connection);
  app->add_flag("--json", flags->json, "Print JSON.")->group("Output");
  app->footer(
      "Examples:\n"
      "  beamwright models\n"
      "  beamwright models g2p-en --json");
  return {app, [app, flags] { return Models(*app, *flags); }};
}

// beamwright health: asks grpc.health.v1 and answers by its exit code.

namespace {

using grpc::health::v1::HealthCheckResponse;

struct HealthFlags {
  std::string service;
  ConnectionFlags connection;
  bool json = false;
};

int Health(const CLI::App& command, const HealthFlags& flags) {
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  const auto health = (*client)->Health(flags.service, flags.connection.Deadline());
  if (!health.ok()) {
    return Failure(command, Explain(health.status(), flags.connection));
  }
  const std::string& status = HealthCheckResponse::ServingStatus_Name(*health);
  if (flags.json) {
    ServiceHealth output;
    output.set_service(flags.service);
    output.set_status(status);
    std::cout << ToJson(output, /*pretty=*/false);
  } else {
    std::cout << status << "\n";
  }
  return *health == HealthCheckResponse::SERVING ? kExitOk : kExitFailed;
}

}  // namespace

Command AddHealthCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("health", "Ask whether the server is serving.");
  auto flags = std::make_shared<HealthFlags>();
  app->add_option(
         "SERVICE", flags->service,
         "Full name of a service, such as beamwright.v1.DecodeService [default: the server "
         "as a whole]")
      ->group("Input");
  AddConnectionFlags(*app, flags->connection);
  app->add_flag("--json", flags->json, "Print JSON.")->group("Output");
  app->footer(
      "Examples:\n"
      "  beamwright health && echo ready\n"
      "  beamwright health --server decoder.example:8001 beamwright.v1.DecodeService\n"
      "Exit code: 0 serving, 1 not serving or no answer, 2 wrong command line.");
  return {app, [app, flags] { return Health(*app, *flags); }};
}

}  // namespace beamwright::client
