// beamwright decode --stream: sources one after another, each shown while it is decoded.
#ifndef BEAMWRIGHT_CLIENT_CLI_STREAM_DECODE_H_
#define BEAMWRIGHT_CLIENT_CLI_STREAM_DECODE_H_

#include "CLI/CLI.hpp"
#include "beamwright/v1/decode.pb.h"
#include "client/cli/connection.h"
#include "client/cli/sources.h"
#include "client/client.h"

namespace beamwright::client {

struct StreamFlags {
  bool stream = false;
  bool provisional = false;
};

// --stream and --provisional. `flags` must outlive the parsing.
void AddStreamFlags(CLI::App& app, StreamFlags& flags);

// Prints each message as it comes: with `json` as a line of JSON, else what is stable, what is
// provisional, and at the end the table that decode prints. Returns the exit code.
int StreamDecode(const CLI::App& command, Client& client, SourceReader& reader,
                 const v1::DecodeRequest& request, const StreamFlags& flags,
                 const ConnectionFlags& connection, bool json);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_STREAM_DECODE_H_
