// One rule of a port_map as the XML says it, with defaults filled in. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_PORT_MAP_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_PORT_MAP_H_

#include <pugixml.hpp>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace beamwright::ops {

struct IrPortRule {
  int64_t external_id = -1;  // port id of the loop layer; -1: none (with a purpose)
  int64_t internal_id = -1;  // layer id in the body
  std::string purpose;       // Loop-5: "current_iteration", "execution_condition", or empty
  bool has_axis = false;     // the rest means something only with an axis
  int64_t axis = 0;
  int64_t start = 0;
  int64_t end = -1;
  int64_t stride = 1;  // part_size, with the sign of the file's stride
  int64_t part_size = 1;
};

// InvalidArgument: an attribute missing or no integer, stride 0, part_size below 1, a part_size
// that contradicts the stride. Unimplemented: the form of IR versions 5 to 7.
absl::StatusOr<IrPortRule> ReadPortRule(pugi::xml_node xml);

// A body's layer by its id: the index that `ids` has for it. InvalidArgument, with the ids that
// would do, if `id` is not a layer of that kind ("Parameter", "Result").
absl::StatusOr<int> FindBodyLayer(const absl::flat_hash_map<int64_t, int>& ids, int64_t id,
                                  absl::string_view kind);

// "input rule of external port 2 and body layer 4": how messages name a rule.
std::string Describe(const IrPortRule& rule, absl::string_view direction);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_PORT_MAP_H_
