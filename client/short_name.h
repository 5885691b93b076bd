// The names of enum values as people write them.
#ifndef BEAMWRIGHT_CLIENT_SHORT_NAME_H_
#define BEAMWRIGHT_CLIENT_SHORT_NAME_H_

#include <google/protobuf/descriptor.h>

#include <string>

namespace beamwright::client {

// LENGTH_PENALTY_POW is "pow". Empty for ..._UNSPECIFIED.
std::string ShortName(const google::protobuf::EnumValueDescriptor& value);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_SHORT_NAME_H_
