// How answers look: a table for people, or JSON for programs.
#ifndef BEAMWRIGHT_CLIENT_CLI_ANSWERS_H_
#define BEAMWRIGHT_CLIENT_CLI_ANSWERS_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "client/bulk.h"
#include "google/protobuf/message.h"

namespace beamwright::client {

// Its text, or the token ids where the model has no text, and why it ended if no end token did.
std::string HypothesisText(const v1::Hypothesis& hypothesis);

// "R-0 IY0-1": each token with its source position, as alignment tools write pairs. Tokens are the
// words or else the characters of `text` where there are as many (the end token, which has no text,
// is left out), else ids. Empty without positions.
std::string AlignedTokens(const std::string& text, absl::Span<const int32_t> tokens,
                          absl::Span<const int32_t> positions);

// The source, then its hypotheses, one a line under aligned headings: rank, score, log-prob, text
// (the token ids where the model has no text); where attention was asked for, a further line with
// AlignedTokens. Ends with a line break.
std::string AnswerTable(const std::string& title, const v1::Decoded& decoded);

// A DecodedSource as one line of JSON, with a line break.
std::string AnswerJson(const BulkAnswer& answer);

// Protobuf's JSON form with the field names of the protos and with fields at their default, too.
// pretty: over several lines. Ends with a line break.
std::string ToJson(const google::protobuf::Message& message, bool pretty);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_ANSWERS_H_
