// Status helpers. Errors that input, a model or resources can cause travel as absl::Status; a
// message says what, where and what is allowed.
#ifndef BEAMWRIGHT_OPS_BASE_STATUS_H_
#define BEAMWRIGHT_OPS_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright {

// `status` with "<where>: " before its message; OK stays OK. Payloads are kept.
absl::Status Annotate(const absl::Status& status, absl::string_view where);

// InvalidArgument, its message joined from the pieces as by absl::StrCat.
template <typename... Pieces>
absl::Status Invalid(const Pieces&... pieces) {
  return absl::InvalidArgumentError(absl::StrCat(pieces...));
}

}  // namespace beamwright

#define BW_CONCAT_INNER(a, b) a##b
#define BW_CONCAT(a, b) BW_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expression` is not OK.
#define BW_RETURN_IF_ERROR(expression)                            \
  do {                                                            \
    if (absl::Status bw_status = (expression); !bw_status.ok()) { \
      return bw_status;                                           \
    }                                                             \
  } while (false)

// BW_ASSIGN_OR_RETURN(auto x, F()): x = the value of F(), or returns its error.
#define BW_ASSIGN_OR_RETURN(lhs, expression) \
  BW_ASSIGN_OR_RETURN_IMPL(BW_CONCAT(bw_value_or_, __LINE__), lhs, expression)
#define BW_ASSIGN_OR_RETURN_IMPL(value_or, lhs, expression) \
  auto value_or = (expression);                             \
  if (!value_or.ok()) {                                     \
    return std::move(value_or).status();                    \
  }                                                         \
  lhs = *std::move(value_or)

namespace beamwright {

// Several errors as one status, so that people mend a file once.

// The messages of all errors, separated by "; ", with the code of the first; OK without errors.
absl::Status JoinErrors(absl::Span<const absl::Status> statuses);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_STATUS_H_
