// The log: to standard error, for people (text) or for machines (JSON, one object a line).
#ifndef BEAMWRIGHT_SERVER_SERVING_LOGGING_H_
#define BEAMWRIGHT_SERVER_SERVING_LOGGING_H_

#include <string>
#include <vector>

namespace beamwright::serving {

struct LogField {
  std::string name;
  std::string value;
  bool is_number = false;
};
using LogFields = std::vector<LogField>;

// level: debug, info, warning, error or off; format: text or json. Once, before threads start.
void SetUpLogging(const std::string& level, const std::string& format);

// What an access log line says, at level info.
void LogFieldsOfCall(const LogFields& fields);

// The fields as "method=Decode code=OK" (values with blanks, quotes or control characters quoted)
// and as members of a JSON object. Long values are cut.
std::string FieldsAsText(const LogFields& fields);
std::string FieldsAsJson(const LogFields& fields);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_LOGGING_H_
