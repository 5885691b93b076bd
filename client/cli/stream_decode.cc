#include "client/cli/stream_decode.h"

#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/terminal.h"

namespace beamwright::client {
namespace {

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

}  // namespace

void AddStreamFlags(CLI::App& app, StreamFlags& flags) {
  app.add_flag("--stream", flags.stream,
               "Decode sources one after another; print tokens as soon as they can't change.")
      ->group("Output");
  app.add_flag("--provisional", flags.provisional,
               "With --stream: also print the best hypothesis so far, which may change.")
      ->group("Output");
}

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

}  // namespace beamwright::client
