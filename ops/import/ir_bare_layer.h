// The form in which the TensorIterator-1 document shows a whole loop: a <layer> alone, without a
// net around it. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_BARE_LAYER_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_BARE_LAYER_H_

#include <pugixml.hpp>

#include "absl/status/status.h"

namespace beamwright::ops {

// Appends to `net` a <net> in which `layer`, a TensorIterator, has a Parameter "input_<port id>"
// before each of its input ports and a Result "output_<port id>" behind each output port. A
// Parameter's type is that of the body's Parameter that it feeds. InvalidArgument if it is another
// layer.
absl::Status WrapBareLayer(pugi::xml_node layer, pugi::xml_document& net);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_BARE_LAYER_H_
