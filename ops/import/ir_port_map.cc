#include "ops/import/ir_port_map.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {
namespace {

// Far above every extent; keeps arithmetic on them from overflowing.
constexpr int64_t kMostIndex = int64_t{1} << 48;

absl::StatusOr<int64_t> ReadBounded(pugi::xml_node xml, const char* name, int64_t fallback) {
  BW_ASSIGN_OR_RETURN(const int64_t value, ReadInt(xml, name, fallback));
  if (value < -kMostIndex || value > kMostIndex) {
    return Invalid("attribute '", name, "' is ", value, ", beyond 2^48");
  }
  return value;
}

absl::Status ReadSlice(pugi::xml_node xml, IrPortRule& rule) {
  BW_ASSIGN_OR_RETURN(rule.axis, ReadBounded(xml, "axis", 0));
  BW_ASSIGN_OR_RETURN(rule.start, ReadBounded(xml, "start", 0));
  BW_ASSIGN_OR_RETURN(rule.end, ReadBounded(xml, "end", -1));
  BW_ASSIGN_OR_RETURN(const int64_t stride, ReadBounded(xml, "stride", 1));
  if (stride == 0) {
    return Invalid("stride is 0");
  }
  rule.part_size = std::max(stride, -stride);
  if (xml.attribute("part_size")) {
    BW_ASSIGN_OR_RETURN(const int64_t part_size, ReadBounded(xml, "part_size", 1));
    if (part_size < 1) {
      return Invalid("part_size ", part_size, " is not positive");
    }
    if (xml.attribute("stride") && part_size != rule.part_size) {
      return Invalid("part_size ", part_size, " contradicts stride ", stride,
                     ": parts must be as long as the step between them");
    }
    rule.part_size = part_size;
  }
  rule.stride = stride > 0 ? rule.part_size : -rule.part_size;
  return absl::OkStatus();
}

}  // namespace

std::string Describe(const IrPortRule& rule, absl::string_view direction) {
  return absl::StrCat(direction, " rule of external port ", rule.external_id, " and body layer ",
                      rule.internal_id);
}

absl::StatusOr<int> FindBodyLayer(const absl::flat_hash_map<int64_t, int>& ids, int64_t id,
                                  absl::string_view kind) {
  constexpr size_t kMostListed = 32;
  const auto it = ids.find(id);
  if (it != ids.end()) {
    return it->second;
  }
  std::vector<int64_t> known;
  for (const auto& entry : ids) {
    known.push_back(entry.first);
  }
  std::sort(known.begin(), known.end());
  const bool more = known.size() > kMostListed;
  known.resize(std::min(known.size(), kMostListed));
  return Invalid("layer ", id, " is not a ", kind, " of the body; its ", kind,
                 "s have the ids: ", absl::StrJoin(known, ", "), more ? ", ..." : "");
}

absl::StatusOr<IrPortRule> ReadPortRule(pugi::xml_node xml) {
  if (xml.attribute("internal_port_id")) {
    return absl::UnimplementedError(
        "port_map rules with internal_port_id belong to IR versions 5 to 7; versions 10 and 11 are "
        "supported");
  }
  IrPortRule rule;
  BW_ASSIGN_OR_RETURN(rule.external_id, ReadInt(xml, "external_port_id"));
  BW_ASSIGN_OR_RETURN(rule.internal_id, ReadInt(xml, "internal_layer_id"));
  rule.purpose = xml.attribute("purpose").value();
  rule.has_axis = static_cast<bool>(xml.attribute("axis"));
  if (rule.has_axis) {
    const absl::Status status = ReadSlice(xml, rule);
    if (!status.ok()) {
      return Annotate(status, Describe(rule, xml.name()));
    }
  }
  return rule;
}

}  // namespace beamwright::ops
