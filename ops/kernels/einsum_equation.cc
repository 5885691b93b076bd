// Reads equations of Einsum, such as "bij,bjk->bik": letters name axes, "..." those without a
// letter.
//
// 1. Parsing: terms become lists of labels. Without "->" the output has the ellipsis and the
//    letters that occur once, in ASCII order (ImplicitOutput). CheckOutput: no label twice, and
//    each from an input.
// 2. Binding to shapes: an ellipsis becomes one label for each axis that it covers, counted from
//    the right (EllipsisAxis), so that ellipses of different ranks broadcast. A letter has the same
//    extent in each input; an axis of an ellipsis may be 1.
#include "ops/kernels/einsum_equation.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

absl::StatusOr<std::vector<Label>> ParseTerm(absl::string_view term) {
  std::vector<Label> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (absl::ascii_isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "...") {
      if (std::count(labels.begin(), labels.end(), kEllipsis) > 0) {
        return Invalid("'", term, "' has more than one ellipsis");
      }
      labels.push_back(kEllipsis);
      i += 2;
    } else {
      return Invalid("'", term, "' has '", term.substr(i, 1),
                     "', only letters and ... are allowed");
    }
  }
  return labels;
}

std::vector<Label> ImplicitOutput(const std::vector<std::vector<Label>>& inputs) {
  std::map<Label, int> counts;  // in ASCII order
  for (const std::vector<Label>& labels : inputs) {
    for (const Label label : labels) {
      ++counts[label];
    }
  }
  std::vector<Label> output;
  for (const auto& [label, count] : counts) {
    if (label == kEllipsis || count == 1) {
      output.push_back(label);
    }
  }
  return output;
}

absl::Status CheckOutput(const EinsumEquation& equation) {
  for (size_t i = 0; i < equation.output.size(); ++i) {
    const Label label = equation.output[i];
    const std::string name = label == kEllipsis ? "..." : std::string(1, static_cast<char>(label));
    if (std::count(equation.output.begin(), equation.output.end(), label) > 1) {
      return Invalid("'", name, "' stands twice in the output");
    }
    const bool known = std::any_of(
        equation.inputs.begin(), equation.inputs.end(), [&](const std::vector<Label>& labels) {
          return std::find(labels.begin(), labels.end(), label) != labels.end();
        });
    // An ellipsis that no input has stands for no axes.
    if (!known && label != kEllipsis) {
      return Invalid("'", name, "' of the output is in no input");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EinsumEquation> ParseEinsum(const std::string& equation) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text),
               [](char c) { return !absl::ascii_isspace(static_cast<unsigned char>(c)); });
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  if (sides.size() > 2) {
    return Invalid("attribute equation: '", equation, "' has more than one '->'");
  }
  EinsumEquation result;
  const auto parse = [&]() -> absl::Status {
    for (const absl::string_view term : absl::StrSplit(sides[0], ',')) {
      BW_ASSIGN_OR_RETURN(std::vector<Label> labels, ParseTerm(term));
      result.inputs.push_back(std::move(labels));
    }
    if (sides.size() == 1) {
      result.output = ImplicitOutput(result.inputs);
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(result.output, ParseTerm(sides[1]));
    return CheckOutput(result);
  };
  if (const absl::Status status = parse(); !status.ok()) {
    return Annotate(status, absl::StrCat("attribute equation '", equation, "'"));
  }
  return result;
}

absl::StatusOr<EinsumLabels> LabelShapes(const EinsumEquation& equation,
                                         absl::Span<const Shape> shapes) {
  EinsumLabels result;
  int most = 0;  // axes of the longest ellipsis
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<Label>& term = equation.inputs[i];
    const bool has_ellipsis = std::find(term.begin(), term.end(), kEllipsis) != term.end();
    const int hidden =
        static_cast<int>(shapes[i].size()) - static_cast<int>(term.size()) + (has_ellipsis ? 1 : 0);
    if (hidden < 0 || (hidden > 0 && !has_ellipsis)) {
      return Invalid("input ", i, ": shape ", ToString(shapes[i]), " has ", shapes[i].size(),
                     " axes, the equation names ", term.size() - (has_ellipsis ? 1 : 0));
    }
    most = std::max(most, hidden);
    std::vector<Label> labels;
    for (const Label label : term) {
      for (int distance = hidden; label == kEllipsis && distance > 0; --distance) {
        labels.push_back(EllipsisAxis(distance));
      }
      if (label != kEllipsis) {
        labels.push_back(label);
      }
    }
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const int64_t extent = shapes[i][axis];
      int64_t& known = result.extents.emplace(labels[axis], extent).first->second;
      const bool broadcasts = IsEllipsisAxis(labels[axis]);
      if (broadcasts && (extent == 1 || known == 1)) {
        known = known == 1 ? extent : known;
      } else if (known >= 0 && extent >= 0 && known != extent) {
        return Invalid("input ", i, ": extent ", extent, " of axis ", axis, " of shape ",
                       ToString(shapes[i]), " does not match ", known, ", its label's elsewhere");
      } else {
        known = std::max(known, extent);
      }
    }
    result.inputs.push_back(std::move(labels));
  }
  for (const Label label : equation.output) {
    for (int distance = most; label == kEllipsis && distance > 0; --distance) {
      result.output.push_back(EllipsisAxis(distance));
    }
    if (label != kEllipsis) {
      result.output.push_back(label);
    }
  }
  return result;
}

}  // namespace beamwright::ops
