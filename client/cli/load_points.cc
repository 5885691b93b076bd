#include "client/cli/load_points.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/cli/terminal.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

absl::StatusOr<double> Point(absl::string_view text, double minimum, double maximum) {
  double value = 0;
  // The negation: NaN is refused too.
  if (!absl::SimpleAtod(text, &value) || !(value >= minimum && value <= maximum)) {
    return Invalid("\"", Printable(text), "\" is not a number from ", minimum, " to ", maximum,
                   ", a list such as 1,2,4, or a range such as 4..128");
  }
  return value;
}

}  // namespace

absl::StatusOr<std::vector<double>> ParseLoadPoints(absl::string_view text, double minimum,
                                                    double maximum) {
  std::vector<double> points;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(piece, absl::MaxSplits("..", 1));
    BW_ASSIGN_OR_RETURN(const double first, Point(ends[0], minimum, maximum));
    BW_ASSIGN_OR_RETURN(const double last, Point(ends.back(), minimum, maximum));
    if (ends.size() == 2 && last <= first) {
      return Invalid("\"", Printable(piece), "\" ends before it begins");
    }
    for (double value = first; value < last && points.size() <= kMaxLoadPoints; value *= 2) {
      points.push_back(value);
    }
    points.push_back(last);
    if (points.size() > kMaxLoadPoints) {
      return Invalid("more than ", kMaxLoadPoints, " loads one after the other");
    }
  }
  return points;
}

}  // namespace beamwright::client
