// beamwright decode: sources in, n-best lists out.
//
// 1. Decode opens the source reader (arguments, a file, standard input, features, pictures or
//    prompts).
// 2. DecodeBulk sends batches, several calls at a time, and gives the answers in the order of the
//    sources to Printer. At a terminal each line is sent alone, so that its answer comes at once.
// 3. StreamDecode, with --stream: one source after the other, each message printed as it arrives.
//
// A source that fails is reported with its number and counted; others go on.
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "beamwright/v1/decode.pb.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/features.h"
#include "client/cli/flags.h"
#include "client/cli/sources.h"
#include "include/beamwright/client.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

// beamwright decode --stream: sources one after another, each shown while it is decoded.
struct StreamFlags {
  bool stream = false;
  bool provisional = false;
};

template <typename Tokens>
std::string TextOf(const std::string& text, const Tokens& tokens) {
  return text.empty() ? absl::StrCat("ids ", absl::StrJoin(tokens, " ")) : Printable(text);
}

void Print(const BulkSource& source, const v1::StreamDecodeResponse& message, bool several) {
  for (const v1::StableTokens& stable : message.stable()) {
    std::cout << "  stable" << (several ? absl::StrCat(" ", stable.sample() + 1) : "") << ": "
              << TextOf(stable.text(), stable.tokens()) << "\n";
  }
  if (message.has_provisional()) {
    std::cout << "  so far: "
              << TextOf(message.provisional().text(), message.provisional().tokens()) << "\n";
  }
  if (message.has_decoded()) {
    std::cout << AnswerTable(SourceText(source), message.decoded());
  }
  std::cout << std::flush;
}

// --stream and --provisional. `flags` must outlive the parsing.
void AddStreamFlags(CLI::App& app, StreamFlags& flags) {
  app.add_flag("--stream", flags.stream,
               "Decode sources one after another; print tokens as soon as they can't change.")
      ->group("Output");
  app.add_flag("--provisional", flags.provisional,
               "With --stream: also print the best hypothesis so far, which may change.")
      ->group("Output");
}

// Prints each message as it comes: with `json` as a line of JSON, else what is stable, what is
// provisional, and at the end the table that decode prints. Returns the exit code.
int StreamDecode(const CLI::App& command, Client& client, SourceReader& reader,
                 const v1::DecodeRequest& request, const StreamFlags& flags,
                 const ConnectionFlags& connection, bool json) {
  int exit_code = kExitOk;
  BulkSource next;
  while (reader.Next(next)) {
    v1::StreamDecodeRequest call;
    call.set_model(request.model());
    call.set_version(request.version());
    *call.mutable_source() = next.source;
    *call.mutable_options() = request.options();
    call.set_provisional(flags.provisional);
    const bool several = request.options().sampling() == v1::SAMPLING_RANDOM;
    absl::Status status = next.status;
    if (status.ok()) {
      status = client.StreamDecode(call, connection.Deadline(),
                                   [&](const v1::StreamDecodeResponse& message) {
                                     if (json) {
                                       std::cout << ToJson(message, /*pretty=*/false) << std::flush;
                                     } else {
                                       Print(next, message, several);
                                     }
                                     return static_cast<bool>(std::cout);
                                   });
    }
    if (!status.ok()) {
      exit_code = Failure(command, absl::StrCat("source \"", SourceText(next),
                                                "\": ", Explain(status, connection)));
      if (FailsEveryCall(status) && next.status.ok()) {
        return exit_code;
      }
    }
  }
  return reader.status().ok() ? exit_code : Failure(command, reader.status().message());
}

struct DecodeFlags {
  SourceFlags sources;
  ConnectionFlags connection;
  StreamFlags stream;
  v1::DecodeRequest request;
  std::string save_state;  // a file; empty: the state is not wanted
  int batch = 32;
  int outstanding = 4;
  bool json = false;
};

// Prints answers as they come and counts those that failed.
class Printer {
 public:
  Printer(const CLI::App& command, const DecodeFlags& flags) : command_(command), flags_(flags) {}

  void Print(const BulkAnswer& answer) {
    if (absl::Status status = ResultStatus(answer.result); !status.ok()) {
      ++num_failed_;
      std::cout.flush();  // keeps the order where both go to the same place
      Failure(command_, absl::StrCat("source ", answer.index + 1, " \"", SourceText(answer.source),
                                     "\": ", CodeAndMessage(status)));
    }
    if (!flags_.save_state.empty() && answer.result.has_decoded()) {
      std::ofstream file(flags_.save_state, std::ios::binary);
      if (!(file << answer.result.decoded().state() << std::flush)) {
        ++num_failed_;
        Failure(command_, absl::StrCat("--save-state: cannot write ", flags_.save_state));
      }
    }
    if (flags_.json) {
      std::cout << AnswerJson(answer) << std::flush;
    } else if (answer.result.has_decoded()) {
      std::cout << (num_printed_++ > 0 ? "\n" : "")
                << AnswerTable(SourceText(answer.source), answer.result.decoded()) << std::flush;
    }
  }

  int64_t num_failed() const { return num_failed_; }

 private:
  const CLI::App& command_;
  const DecodeFlags& flags_;
  int64_t num_failed_ = 0;
  int64_t num_printed_ = 0;
};

// What answers go on from, where a model has no encoder.
//
// For models without an encoder, which go on from a prompt. --state and --save-state save the
// model's state behind a prompt, so that the next call need not read the prompt again.
absl::Status SetPrompt(const DecodeFlags& flags, v1::DecodeOptions& options) {
  const SourceFlags& sources = flags.sources;
  if (!sources.prompt.has_value() && !(sources.state_file.empty() && flags.save_state.empty())) {
    return Invalid("--state and --save-state: need --prompt, which may be empty");
  }
  if (flags.stream.stream && !flags.save_state.empty()) {
    return Invalid("--save-state: is not there with --stream");
  }
  if (!flags.save_state.empty()) {
    options.set_return_state(true);
  }
  if (!sources.prompt.has_value() || sources.prompt->empty()) {
    return absl::OkStatus();
  }
  if (options.has_target_prefix()) {
    return Invalid(
        "--prompt: there is a --target-prefix as well; both are what answers begin with");
  }
  return SetTextOrIds(*sources.prompt, sources.ids, *options.mutable_target_prefix());
}

// 1. The command line is checked as far as it can be without a server.
// 2. Features need the server: it says of which type and shape they are.
// 3. Sources are opened.
// 4. With --stream they are decoded one after the other, else in batches. Progress is a line on
//    standard error, and only where that is a terminal.
int Decode(const CLI::App& command, DecodeFlags& flags) {
  if (const absl::Status set = SetPrompt(flags, *flags.request.mutable_options()); !set.ok()) {
    return UsageError(command, set.message());
  }
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  auto features = FeatureFiles::Open(flags.sources.features, **client, flags.request.model(),
                                     flags.request.version(), flags.connection.Deadline());
  if (absl::IsInvalidArgument(features.status())) {
    return UsageError(command, features.status().message());
  }
  if (!features.ok()) {
    return Failure(command, Explain(features.status(), flags.connection));
  }
  auto reader = SourceReader::Open(flags.sources, *std::move(features));
  if (!reader.ok()) {
    return UsageError(command, reader.status().message());
  }
  if (flags.stream.provisional && !flags.stream.stream) {
    return UsageError(command, "--provisional: needs --stream");
  }
  if (flags.stream.stream) {
    return StreamDecode(command, **client, **reader, flags.request, flags.stream, flags.connection,
                        flags.json);
  }
  BulkOptions bulk;
  bulk.request = flags.request;
  bulk.batch = (*reader)->interactive() ? 1 : flags.batch;
  bulk.outstanding = (*reader)->interactive() ? 1 : flags.outstanding;
  bulk.timeout = flags.connection.timeout;
  if ((*reader)->interactive()) {
    std::cerr << "Type sources, one a line; Ctrl-D ends.\n";
  }
  Printer printer(command, flags);
  absl::Status status;
  {
    Progress progress((*reader)->total_bytes());
    status = DecodeBulk(
        **client, bulk, [&](BulkSource& source) { return (*reader)->Next(source); },
        [&](const BulkAnswer& answer) {
          printer.Print(answer);
          progress.Update(answer.index + 1, (*reader)->bytes_read());
        });
  }
  if (!status.ok()) {
    return Failure(command, Explain(status, flags.connection));
  }
  if (!(*reader)->status().ok()) {
    return Failure(command, (*reader)->status().message());
  }
  return printer.num_failed() == 0 ? kExitOk : kExitFailed;
}

}  // namespace

Command AddDecodeCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("decode", "Decode sources and print their n-best lists.");
  auto flags = std::make_shared<DecodeFlags>();
  AddSourceFlags(*app, flags->sources);
  app->add_option("--prompt", flags->sources.prompt,
                  "Go on from this text (with --ids: from these ids), which may be empty, instead "
                  "of decoding a source: for models without an encoder.")
      ->type_name("TEXT")
      ->group("Input");
  app->add_option("--state", flags->sources.state_file,
                  "With --prompt: go on behind the tokens of this file, which --save-state wrote.")
      ->type_name("FILE")
      ->check(CLI::ExistingFile)
      ->group("Input");
  app->add_option("--save-state", flags->save_state,
                  "With --prompt: write the model's state behind the prompt into this file.")
      ->type_name("FILE")
      ->group("Output");
  AddModelFlags(*app, flags->request);
  AddConnectionFlags(*app, flags->connection);
  AddIntFlag(*app, {"--batch", kConnectionGroup, "Sources sent in one call."}, 1, 4096,
             flags->batch);
  AddIntFlag(*app, {"--outstanding", kConnectionGroup, "Calls in flight at the same time."}, 1, 256,
             flags->outstanding);
  AddMessageFlags(*app, "Other options", *flags->request.mutable_options());
  app->add_flag("--json", flags->json, "Print one JSON object a source, each on a line.")
      ->group("Output");
  AddStreamFlags(*app, flags->stream);
  app->footer(
      "Without SOURCE and --file, lines of standard input are decoded. Options that are not given\n"
      "take the model's defaults, then those shown here; docs/decoding.md defines each.\n"
      "Examples:\n"
      "  beamwright decode hello world --n-best 3\n"
      "  beamwright decode --file words.txt --json > answers.jsonl\n"
      "  beamwright decode --features one.npy two.npy --model speech\n"
      "  beamwright decode --picture line1.png line2.jpg --model ocr\n"
      "  beamwright decode --prompt 'once upon' --model stories\n"
      "  beamwright decode --beam-size 8 --length-penalty pow:0.6 hello\n"
      "Exit code: 0 all decoded, 1 a source or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return Decode(*app, *flags); }};
}

}  // namespace beamwright::client
