// JSON bodies of the Open Inference Protocol to ModelInferRequest, and ModelInferResponse back.
// Elements of tensors are raw bytes in both messages; in JSON they are lists, or bytes behind the
// JSON object (extension "binary_tensor_data"):
//
//   {"inputs":[{"name":"source_ids","shape":[1,3],"datatype":"INT64","data":[5,6,7]}]}
//   {"inputs":[{..., "parameters":{"binary_data_size":24}}]}<24 bytes>
//
// Reading (ParseInferBody): 1. The header says where the JSON ends. 2. CheckJsonBounds limits the
// depth and size of the text before protobuf's parser, which recurses, sees it. 3. ReadAll walks
// the members: ReadInput and ReadElements convert each element to the datatype's bytes
// (AppendElement), or take the next bytes behind the JSON. An error names the member,
// "inputs[0].data[3]". 4. Bytes that no input takes are an error.
//
// Writing (WriteInferBody): outputs as flat lists, or behind the JSON where the request asked for
// that, by output or for all. Numbers of JSON are doubles: integers from 2^53 on are refused, and
// must be sent as bytes.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>

#include "absl/strings/numbers.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "server/http/routes.h"
#include "server/oip/input_tensor.h"

namespace beamwright::http {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;
using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

// Null if there is no such member.
const Value* Find(const Struct& object, const char* name) {
  const auto it = object.fields().find(name);
  return it == object.fields().end() ? nullptr : &it->second;
}

absl::StatusOr<std::string> StringMember(const Struct& object, const char* name) {
  const Value* value = Find(object, name);
  if (value == nullptr) {
    return "";
  }
  if (value->kind_case() != Value::kStringValue) {
    return status::InvalidField(name, "is not a string");
  }
  return value->string_value();
}

absl::StatusOr<const ListValue*> ListMember(const Struct& object, const char* name) {
  const Value* value = Find(object, name);
  if (value == nullptr) {
    return &ListValue::default_instance();
  }
  if (value->kind_case() != Value::kListValue) {
    return status::InvalidField(name, "is not a list");
  }
  return &value->list_value();
}

// A whole number that a double holds exactly.
absl::StatusOr<int64_t> Whole(const Value& value) {
  const double number = value.number_value();
  if (value.kind_case() != Value::kNumberValue || number != std::floor(number)) {
    return Invalid("is not a whole number");
  }
  // 2^53 may have been 2^53 + 1 in the text.
  if (std::abs(number) >= 0x1p53) {
    return Invalid(
        "is not below 2^53, up to where numbers in JSON are exact; send it as binary data");
  }
  return static_cast<int64_t>(number);
}

absl::Status ReadParameters(const Struct& object, Parameters& parameters) {
  const Value* value = Find(object, "parameters");
  if (value == nullptr) {
    return absl::OkStatus();
  }
  if (value->kind_case() != Value::kStructValue) {
    return status::InvalidField("parameters", "is not an object");
  }
  for (const auto& [name, member] : value->struct_value().fields()) {
    inference::InferParameter& parameter = parameters[name];
    switch (member.kind_case()) {
      case Value::kBoolValue:
        parameter.set_bool_param(member.bool_value());
        break;
      case Value::kStringValue:
        parameter.set_string_param(member.string_value());
        break;
      case Value::kNumberValue:
        if (absl::StatusOr<int64_t> whole = Whole(member); whole.ok()) {
          parameter.set_int64_param(*whole);
        } else {
          parameter.set_double_param(member.number_value());
        }
        break;
      default:
        return status::InvalidField(absl::StrCat("parameters['", name, "']"),
                                    "is not a string, number, true or false");
    }
  }
  return absl::OkStatus();
}

template <typename T>
void AppendRaw(T value, std::string& raw) {
  raw.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
absl::Status AppendWhole(const Value& value, std::string& raw) {
  BW_ASSIGN_OR_RETURN(const int64_t number, Whole(value));
  if (!std::in_range<T>(number)) {
    return Invalid(number, " is outside the range of the datatype");
  }
  AppendRaw(static_cast<T>(number), raw);
  return absl::OkStatus();
}

absl::Status AppendText(const Value& value, std::string& raw) {
  if (value.kind_case() != Value::kStringValue) {
    return Invalid("is not a string");
  }
  AppendRaw(static_cast<uint32_t>(value.string_value().size()), raw);
  raw += value.string_value();
  return absl::OkStatus();
}

absl::Status AppendFloat(const Value& value, bool wide, std::string& raw) {
  if (value.kind_case() != Value::kNumberValue) {
    return Invalid("is not a number");
  }
  const double number = value.number_value();
  if (wide) {
    AppendRaw(number, raw);
    return absl::OkStatus();
  }
  // Numbers that round to more than the largest float.
  if (std::abs(number) >= 0x1.ffffffp127) {
    return Invalid(number, " is outside the range of the datatype");
  }
  AppendRaw(static_cast<float>(number), raw);
  return absl::OkStatus();
}

absl::Status AppendElement(const oip::Datatype& datatype, const Value& value, std::string& raw) {
  switch (datatype.config_type) {
    case inference::TYPE_STRING:
      return AppendText(value, raw);
    case inference::TYPE_BOOL:
      if (value.kind_case() != Value::kBoolValue) {
        return Invalid("is neither true nor false");
      }
      AppendRaw(static_cast<uint8_t>(value.bool_value()), raw);
      return absl::OkStatus();
    case inference::TYPE_FP32:
    case inference::TYPE_FP64:
      return AppendFloat(value, datatype.config_type == inference::TYPE_FP64, raw);
    case inference::TYPE_INT8:
      return AppendWhole<int8_t>(value, raw);
    case inference::TYPE_INT16:
      return AppendWhole<int16_t>(value, raw);
    case inference::TYPE_INT32:
      return AppendWhole<int32_t>(value, raw);
    case inference::TYPE_INT64:
      return AppendWhole<int64_t>(value, raw);
    case inference::TYPE_UINT8:
      return AppendWhole<uint8_t>(value, raw);
    case inference::TYPE_UINT16:
      return AppendWhole<uint16_t>(value, raw);
    case inference::TYPE_UINT32:
      return AppendWhole<uint32_t>(value, raw);
    case inference::TYPE_UINT64:
      return AppendWhole<uint64_t>(value, raw);
    default:
      return Invalid("of datatype ", datatype.name, " can't be JSON; send it as binary data");
  }
}

// Elements in row-major order, nested as the shape is or flat. CheckJsonBounds has bounded the
// depth.
absl::Status AppendElements(const oip::Datatype& datatype, const ListValue& list,
                            std::string& raw) {
  for (int i = 0; i < list.values_size(); ++i) {
    const Value& value = list.values(i);
    const absl::Status status = value.kind_case() == Value::kListValue
                                    ? AppendElements(datatype, value.list_value(), raw)
                                    : AppendElement(datatype, value, raw);
    if (!status.ok()) {
      return status::AtField(status, absl::StrCat("[", i, "]"));
    }
  }
  return absl::OkStatus();
}

// The elements of an input: its own `data`, or the next binary_data_size bytes of `binary`.
absl::Status ReadElements(const Struct& object,
                          const inference::ModelInferRequest::InferInputTensor& input,
                          absl::string_view& binary, std::string& raw) {
  const auto size = input.parameters().find("binary_data_size");
  const Value* data = Find(object, "data");
  if (size != input.parameters().end()) {
    if (!size->second.has_int64_param()) {
      return status::InvalidField("parameters['binary_data_size']", "is not a whole number");
    }
    const int64_t bytes = size->second.int64_param();
    if (data != nullptr || bytes < 0 || static_cast<uint64_t>(bytes) > binary.size()) {
      return status::InvalidField("parameters['binary_data_size']", bytes, "; there are ",
                                  binary.size(),
                                  " bytes left behind the JSON, and no data may be in it");
    }
    raw = std::string(binary.substr(0, static_cast<size_t>(bytes)));
    binary.remove_prefix(static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  if (data == nullptr || data->kind_case() != Value::kListValue) {
    return status::InvalidField("data", "is not a list");
  }
  const oip::Datatype* datatype = oip::FindDatatype(input.datatype());
  if (datatype == nullptr) {
    return status::InvalidField("datatype", "'", input.datatype(), "' is not one of ",
                                oip::DatatypeNames());
  }
  return status::AtField(AppendElements(*datatype, data->list_value(), raw), "data");
}

absl::Status ReadInput(const Value& value, absl::string_view& binary,
                       inference::ModelInferRequest& request) {
  if (value.kind_case() != Value::kStructValue) {
    return Invalid("is not an object");
  }
  const Struct& object = value.struct_value();
  auto& input = *request.add_inputs();
  BW_ASSIGN_OR_RETURN(*input.mutable_name(), StringMember(object, "name"));
  BW_ASSIGN_OR_RETURN(*input.mutable_datatype(), StringMember(object, "datatype"));
  BW_ASSIGN_OR_RETURN(const ListValue* shape, ListMember(object, "shape"));
  for (const Value& extent : shape->values()) {
    absl::StatusOr<int64_t> whole = Whole(extent);
    if (!whole.ok()) {
      return status::AtField(whole.status(), "shape");
    }
    input.add_shape(*whole);
  }
  BW_RETURN_IF_ERROR(ReadParameters(object, *input.mutable_parameters()));
  return ReadElements(object, input, binary, *request.add_raw_input_contents());
}

bool IsTrue(const Parameters& parameters, const char* name) {
  const auto it = parameters.find(name);
  return it != parameters.end() && it->second.bool_param();
}

absl::Status ReadOutput(const Value& value, InferBody& body) {
  if (value.kind_case() != Value::kStructValue) {
    return Invalid("is not an object");
  }
  auto& output = *body.request.add_outputs();
  BW_ASSIGN_OR_RETURN(*output.mutable_name(), StringMember(value.struct_value(), "name"));
  BW_RETURN_IF_ERROR(ReadParameters(value.struct_value(), *output.mutable_parameters()));
  const bool says = output.parameters().contains("binary_data");
  if (says ? IsTrue(output.parameters(), "binary_data") : body.all_binary) {
    body.binary_outputs.insert(output.name());
  }
  return absl::OkStatus();
}

absl::Status ReadAll(const Struct& root, absl::string_view binary, InferBody& body) {
  BW_ASSIGN_OR_RETURN(*body.request.mutable_id(), StringMember(root, "id"));
  BW_RETURN_IF_ERROR(ReadParameters(root, *body.request.mutable_parameters()));
  body.all_binary = IsTrue(body.request.parameters(), "binary_data_output");
  BW_ASSIGN_OR_RETURN(const ListValue* inputs, ListMember(root, "inputs"));
  for (int i = 0; i < inputs->values_size(); ++i) {
    BW_RETURN_IF_ERROR(status::AtField(ReadInput(inputs->values(i), binary, body.request),
                                       absl::StrCat("inputs[", i, "]")));
  }
  if (!binary.empty()) {
    return Invalid(binary.size(), " bytes behind the JSON belong to no input");
  }
  BW_ASSIGN_OR_RETURN(const ListValue* outputs, ListMember(root, "outputs"));
  for (int i = 0; i < outputs->values_size(); ++i) {
    BW_RETURN_IF_ERROR(
        status::AtField(ReadOutput(outputs->values(i), body), absl::StrCat("outputs[", i, "]")));
  }
  body.all_binary = body.all_binary && body.request.outputs().empty();
  return absl::OkStatus();
}

// Takes the first element off the raw bytes.
template <typename T>
T Take(absl::string_view& raw) {
  T value;
  std::memcpy(&value, raw.data(), sizeof(T));
  raw.remove_prefix(sizeof(T));
  return value;
}

// Takes the first element off and writes it as JSON. Knows the types that answers have.
void TakeElement(const std::string& datatype, absl::string_view& raw, JsonWriter& json) {
  if (datatype == "BYTES") {
    const auto size = static_cast<size_t>(Take<uint32_t>(raw));
    json.String(raw.substr(0, size));
    raw.remove_prefix(size);
  } else if (datatype == "FP64") {
    json.Double(Take<double>(raw));
  } else if (datatype == "FP32") {
    json.Float(Take<float>(raw));
  } else {
    json.Int(Take<int32_t>(raw));
  }
}

void WriteParameters(const Parameters& parameters, JsonWriter& json) {
  // Sorted, so that equal answers have equal bytes.
  const std::map<std::string, inference::InferParameter> by_name(parameters.begin(),
                                                                 parameters.end());
  json.BeginObject();
  for (const auto& [name, value] : by_name) {
    json.Key(name);
    switch (value.parameter_choice_case()) {
      case inference::InferParameter::kBoolParam:
        json.Bool(value.bool_param());
        break;
      case inference::InferParameter::kInt64Param:
        json.Int(value.int64_param());
        break;
      case inference::InferParameter::kUint64Param:
        json.Uint(value.uint64_param());
        break;
      case inference::InferParameter::kDoubleParam:
        json.Double(value.double_param());
        break;
      case inference::InferParameter::kStringParam:
        json.String(value.string_param());
        break;
      case inference::InferParameter::PARAMETER_CHOICE_NOT_SET:
        json.Null();
        break;
    }
  }
  json.EndObject();
}

// An output with its elements as a flat list, or with the number of its bytes behind the JSON.
void WriteOutput(const inference::ModelInferResponse::InferOutputTensor& output,
                 absl::string_view raw, bool is_binary, JsonWriter& json) {
  json.BeginObject();
  json.Key("name").String(output.name());
  json.Key("datatype").String(output.datatype());
  json.Key("shape").BeginArray();
  for (const int64_t extent : output.shape()) {
    json.Int(extent);
  }
  json.EndArray();
  if (is_binary) {
    json.Key("parameters").BeginObject();
    json.Key("binary_data_size").Uint(raw.size());
    json.EndObject();
  } else {
    json.Key("data").BeginArray();
    while (!raw.empty()) {
      TakeElement(output.datatype(), raw, json);
    }
    json.EndArray();
  }
  json.EndObject();
}

}  // namespace

absl::StatusOr<InferBody> ParseInferBody(const std::string& body, const std::string& json_length) {
  size_t length = body.size();
  const bool is_length = json_length.empty() || absl::SimpleAtoi(json_length, &length);
  if (is_length) {  // before its value is checked, since the listener cuts bodies (body_scan.h)
    BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(absl::string_view(body).substr(0, length)));
  }
  if (!is_length || length > body.size()) {
    return Invalid("header Inference-Header-Content-Length: '", json_length,
                   "' is not a length within the body of ", body.size(), " bytes");
  }
  Struct root;
  const google::protobuf::StringPiece text(body.data(), length);
  if (const auto status = google::protobuf::util::JsonStringToMessage(text, &root); !status.ok()) {
    return Invalid("the body is not a JSON object: ",
                   absl::string_view(status.message().data(), status.message().size()));
  }
  InferBody result;
  BW_RETURN_IF_ERROR(ReadAll(root, absl::string_view(body).substr(length), result));
  BW_RETURN_IF_ERROR(bundle::CheckBounds(result.request));
  return result;
}

InferReply WriteInferBody(const InferBody& asked, const inference::ModelInferResponse& response) {
  std::string binary;
  JsonWriter json;
  json.BeginObject();
  json.Key("model_name").String(response.model_name());
  json.Key("model_version").String(response.model_version());
  if (!response.id().empty()) {
    json.Key("id").String(response.id());
  }
  if (!response.parameters().empty()) {
    json.Key("parameters");
    WriteParameters(response.parameters(), json);
  }
  json.Key("outputs").BeginArray();
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    const std::string& raw = response.raw_output_contents(i);
    const bool is_binary = asked.all_binary || asked.binary_outputs.count(output.name()) > 0;
    WriteOutput(output, raw, is_binary, json);
    binary += is_binary ? raw : "";
  }
  json.EndArray().EndObject();
  InferReply reply;
  reply.json_length = json.text().size();
  reply.body = absl::StrCat(json.text(), binary);
  return reply;
}

}  // namespace beamwright::http
