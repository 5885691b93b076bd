// Fault: what is wrong with a request, or with a file, as data: a field and a text. A fault is made
// once, where it is found, and each layer on the way out may rename its field ("text" becomes
// "targets[0].text"); messages are for people. A status carries faults as a google.rpc.BadRequest
// with the message made of them, so that each protocol renders the same faults: gRPC and REST
// as details, the Open Inference Protocol and the command line as the message.
#ifndef BEAMWRIGHT_ENGINE_STATUS_FAULT_H_
#define BEAMWRIGHT_ENGINE_STATUS_FAULT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::status {

struct Fault {
  std::string field;  // "options.beam_size"; empty if no single field is at fault
  std::string text;   // what is wrong with it and what is allowed: "0 is outside [1, 256]"
};

bool operator==(const Fault& a, const Fault& b);

// A list that grows by the field and the pieces of the text, which are joined as by absl::StrCat.
class Faults : public std::vector<Fault> {
 public:
  using std::vector<Fault>::vector;

  template <typename... Pieces>
  void Add(absl::string_view field, const Pieces&... pieces) {
    push_back({std::string(field), absl::StrCat(pieces...)});
  }
};

// "options.beam_size: 0 is outside [1, 256]".
std::string ToString(const Fault& fault);
// Of all of them, "; " between them.
std::string ToString(absl::Span<const Fault> faults);

// InvalidArgument that carries the faults; its message is theirs. There must be one.
absl::Status InvalidFields(absl::Span<const Fault> faults);
// OK without faults.
absl::Status OkOrInvalid(absl::Span<const Fault> faults);
template <typename... Pieces>
absl::Status InvalidField(absl::string_view field, const Pieces&... pieces) {
  return InvalidFields({Fault{std::string(field), absl::StrCat(pieces...)}});
}

// The faults that the status carries, in the order in which they were found; of any other error its
// message, as a fault of no field; none of OK. What was not UTF-8 is escaped.
Faults FaultsOf(const absl::Status& status);

// The status with each fault's field replaced by what `rename` makes of it, in the message as well,
// unless that says more than the faults (Annotate). A status without faults stays as it is.
absl::Status WithFields(const absl::Status& status,
                        absl::FunctionRef<std::string(absl::string_view)> rename);

// An InvalidArgument whose message says what is wrong with `field`; any other error gets the field
// before its message. OK stays OK.
absl::Status AtField(const absl::Status& status, absl::string_view field);

}  // namespace beamwright::status

#endif  // BEAMWRIGHT_ENGINE_STATUS_FAULT_H_
