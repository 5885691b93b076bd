// Flags whose errors say what is allowed, among them flags made from a protobuf message: one for
// each field, described by the field's `rule` option (proto/beamwright/v1/rule.proto). So a decode
// option that is added to the proto is on the command line, with its range, default and text.
//
// The functions add to a CLI::App; its parsing then throws CLI::ValidationError for a bad value,
// naming the flag. What a flag sets must outlive the parsing.
#ifndef BEAMWRIGHT_CLIENT_CLI_FLAGS_H_
#define BEAMWRIGHT_CLIENT_CLI_FLAGS_H_

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "include/beamwright/client.h"

namespace beamwright::client {

// One flag for each field of `message`: beam_size is --beam-size. Numbers are held against the
// rule's range; enums go by their short names (STOP_MODE_SAFE is "safe"); bools are --name and
// --no-name; messages are given in protobuf's JSON form, or, where they have a field `text`, as
// that text ("words", or "words:2.5" where it has one number as well); flags of repeated fields
// may be given several times. Where field x is an enum and x_alpha exists, "--x name:0.6" sets
// both. Flags stand under the rule's group, else `group`.
void AddMessageFlags(CLI::App& app, const std::string& group, google::protobuf::Message& message);

struct FlagText {
  std::string name;  // with the dashes
  std::string group;
  std::string text;  // without range and default, which are added
};

// A whole number from `minimum` to `maximum`.
CLI::Option* AddIntFlag(CLI::App& app, const FlagText& flag, int minimum, int maximum, int& value);

// A duration such as 500ms, 10s or 2m, from `minimum` to `maximum`; a plain number is in seconds.
CLI::Option* AddDurationFlag(CLI::App& app, const FlagText& flag, absl::Duration minimum,
                             absl::Duration maximum, absl::Duration& value);

// Protobuf fields as a person types and reads them. flags.h makes flags of them.

// "--beam-size"
std::string FlagName(const google::protobuf::FieldDescriptor& field);

// What a value may be: "1 to 256 hypotheses", "none, pow or gnmt".
std::string AllowedValues(const google::protobuf::FieldDescriptor& field);

// The placeholder in --help: INT, NUMBER, NAME, TEXT or JSON.
std::string ValueKind(const google::protobuf::FieldDescriptor& field);

// Sets the field (adds to it, if repeated) from text. InvalidArgument if the text is not one of
// AllowedValues, or if a field that is not repeated has been set before.
absl::Status SetField(const google::protobuf::FieldDescriptor& field, absl::string_view text,
                      google::protobuf::Message& message);

// The flags by which every subcommand finds its server and its model, and a server's errors for
// people.

struct ConnectionFlags {
  ClientOptions client;
  absl::Duration timeout = absl::Seconds(30);

  absl::Time Deadline() const { return absl::Now() + timeout; }
};

inline constexpr char kConnectionGroup[] = "Connection";

// --server (environment: BEAMWRIGHT_SERVER), --timeout, and those of TLS and tokens. `flags` must
// outlive the parsing.
void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags);

// An error of a call as a sentence: what happened, and what to do about it where that is known.
std::string Explain(const absl::Status& status, const ConnectionFlags& flags);

// "NOT_FOUND: there is no model x"
std::string CodeAndMessage(const absl::Status& status);

// --model and --version, as every command that asks a model has them.

// The strings must outlive the parsing.
void AddModelFlag(CLI::App& app, std::string& model);
void AddVersionFlag(CLI::App& app, std::string& version);

// Both, into the fields of that name.
template <typename Request>
void AddModelFlags(CLI::App& app, Request& request) {
  AddModelFlag(app, *request.mutable_model());
  AddVersionFlag(app, *request.mutable_version());
}

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_FLAGS_H_
