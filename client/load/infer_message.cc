// Requests of the Open Inference Protocol for the load generator, from two sources and into two
// forms.
//
// 1. InferRequestOf(DecodeRequest): sources become one tensor (AddTexts, AddIds padded with -1,
//    AddFeatures), options become parameters (SetParameter): numbers, truths and names as such,
//    messages and lists as text in JSON.
// 2. InferRequestOf(Struct): a request written in the protocol's JSON, as a line of a mix has it
//    (ReadInput, ReadElements, ReadParameters).
// 3. InferJson: the message as the body of an HTTP request.
//
// kLists maps each datatype to the list of InferTensorContents that holds its elements; elements of
// small integers share one list.
#include "client/load/infer_message.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/channels.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::ListValue;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Struct;
using google::protobuf::Value;
using inference::InferParameter;
using inference::InferTensorContents;
using inference::ModelInferRequest;
using InputTensor = ModelInferRequest::InferInputTensor;
using Parameters = google::protobuf::Map<std::string, InferParameter>;

// A datatype, and the list of InferTensorContents that its elements go into.
struct ElementList {
  absl::string_view datatype;
  absl::string_view dtype;  // of v1::Tensor; empty: not of features
  void (*add_number)(double, InferTensorContents&);
  // From the bytes of a v1::Tensor.
  void (*add_bytes)(absl::string_view, InferTensorContents&);
};

template <typename T, auto Add>
void AddBytes(absl::string_view bytes, InferTensorContents& contents) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    (contents.*Add)(value);
  }
}

template <typename T, auto Add>
void AddNumber(double value, InferTensorContents& contents) {
  (contents.*Add)(static_cast<T>(value));
}

#define BW_LIST(datatype, dtype, T, add)                      \
  {                                                           \
    datatype, dtype, AddNumber<T, &InferTensorContents::add>, \
        AddBytes<T, &InferTensorContents::add>                \
  }
constexpr ElementList kLists[] = {
    BW_LIST("FP32", "f32", float, add_fp32_contents),
    BW_LIST("FP64", "f64", double, add_fp64_contents),
    BW_LIST("INT8", "i8", int8_t, add_int_contents),
    BW_LIST("INT16", "i16", int16_t, add_int_contents),
    BW_LIST("INT32", "i32", int32_t, add_int_contents),
    BW_LIST("INT64", "i64", int64_t, add_int64_contents),
    BW_LIST("UINT8", "u8", uint8_t, add_uint_contents),
    BW_LIST("UINT16", "u16", uint16_t, add_uint_contents),
    BW_LIST("UINT32", "u32", uint32_t, add_uint_contents),
    BW_LIST("UINT64", "u64", uint64_t, add_uint64_contents),
    BW_LIST("BOOL", "boolean", bool, add_bool_contents),
};
#undef BW_LIST

// Texts, or pictures' files.
absl::Status AddTexts(const v1::DecodeRequest& request, InputTensor& input) {
  const v1::Source::KindCase kind = request.sources(0).kind_case();
  input.set_name(kind == v1::Source::kPicture ? "source_picture" : "source_text");
  input.set_datatype("BYTES");
  input.add_shape(request.sources_size());
  input.add_shape(1);
  for (const v1::Source& source : request.sources()) {
    if (source.kind_case() != kind) {
      return Invalid("sources of one call must be of one kind");
    }
    input.mutable_contents()->add_bytes_contents(source.has_picture() ? source.picture()
                                                                      : source.text());
  }
  return absl::OkStatus();
}

// Shorter sources are filled up with -1 to the longest.
absl::Status AddIds(const v1::DecodeRequest& request, InputTensor& input) {
  int longest = 0;
  for (const v1::Source& source : request.sources()) {
    if (!source.has_ids()) {
      return Invalid("sources of one call must be of one kind");
    }
    longest = std::max(longest, source.ids().ids_size());
  }
  input.set_name("source_ids");
  input.set_datatype("INT32");
  input.add_shape(request.sources_size());
  input.add_shape(longest);
  for (const v1::Source& source : request.sources()) {
    auto& contents = *input.mutable_contents()->mutable_int_contents();
    contents.MergeFrom(source.ids().ids());
    contents.Resize(contents.size() + longest - source.ids().ids_size(), -1);
  }
  return absl::OkStatus();
}

// All sources have one shape: a tensor of the protocol can't be ragged, and padding would change
// what is measured.
absl::Status AddFeatures(const v1::DecodeRequest& request, InputTensor& input) {
  const v1::Tensor& first = request.sources(0).features();
  const auto* const list =
      std::find_if(std::begin(kLists), std::end(kLists),
                   [&](const ElementList& each) { return each.dtype == first.dtype(); });
  if (list == std::end(kLists)) {
    return Invalid("features of ", first.dtype(), " have no list in the Open Inference Protocol");
  }
  input.set_name("source_features");
  input.set_datatype(std::string(list->datatype));
  input.add_shape(request.sources_size());
  input.mutable_shape()->MergeFrom(first.shape());
  for (const v1::Source& source : request.sources()) {
    const v1::Tensor& tensor = source.features();
    if (tensor.dtype() != first.dtype() ||
        !std::equal(tensor.shape().begin(), tensor.shape().end(), first.shape().begin(),
                    first.shape().end())) {
      return Invalid("features of one call must be of one type and shape");
    }
    list->add_bytes(tensor.data(), *input.mutable_contents());
  }
  return absl::OkStatus();
}

// Sets a field of the options as a parameter. Messages and lists are text in protobuf's JSON form.
absl::Status SetParameter(const Message& options, const FieldDescriptor& field,
                          InferParameter& parameter) {
  const Reflection& reflection = *options.GetReflection();
  if (!field.is_repeated()) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        parameter.set_bool_param(reflection.GetBool(options, &field));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_INT32:
        parameter.set_int64_param(reflection.GetInt32(options, &field));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_INT64:
        parameter.set_int64_param(reflection.GetInt64(options, &field));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_UINT64:
        parameter.set_uint64_param(reflection.GetUInt64(options, &field));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_FLOAT:
        parameter.set_double_param(static_cast<double>(reflection.GetFloat(options, &field)));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_DOUBLE:
        parameter.set_double_param(reflection.GetDouble(options, &field));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_STRING:
        parameter.set_string_param(reflection.GetString(options, &field));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_ENUM:
        parameter.set_string_param(ShortName(*reflection.GetEnum(options, &field)));
        return absl::OkStatus();
      default:
        break;
    }
  }
  // The JSON of the field alone: printed as an object with this one member, and cut out of it.
  v1::DecodeOptions alone;
  std::vector<const FieldDescriptor*> others;
  alone.CopyFrom(options);
  reflection.ListFields(alone, &others);
  for (const FieldDescriptor* other : others) {
    if (other != &field) {
      reflection.ClearField(&alone, other);
    }
  }
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  std::string json;
  if (const auto status = MessageToJsonString(alone, &json, print); !status.ok()) {
    return Invalid(field.name(), ": ", std::string(status.message()));
  }
  const size_t begin = json.find(':') + 1;
  parameter.set_string_param(json.substr(begin, json.rfind('}') - begin));
  return absl::OkStatus();
}

// ---- from the protocol's JSON

const Value* Find(const Struct& object, const char* name) {
  const auto it = object.fields().find(name);
  return it == object.fields().end() ? nullptr : &it->second;
}

// Elements may come flat or nested, as servers of the protocol take them; each is checked against
// the datatype.
absl::Status ReadElements(const Value& value, const std::string& datatype,
                          InferTensorContents& contents) {
  if (value.kind_case() == Value::kListValue) {
    for (const Value& element : value.list_value().values()) {
      BW_RETURN_IF_ERROR(ReadElements(element, datatype, contents));
    }
    return absl::OkStatus();
  }
  if (datatype == "BYTES" && value.kind_case() == Value::kStringValue) {
    contents.add_bytes_contents(value.string_value());
    return absl::OkStatus();
  }
  const auto* const list =
      std::find_if(std::begin(kLists), std::end(kLists),
                   [&](const ElementList& each) { return each.datatype == datatype; });
  if (list == std::end(kLists) && datatype != "BYTES") {
    return Invalid("datatype \"", datatype, "\" is not known, or cannot be written in JSON");
  }
  if (datatype == "BOOL" && value.kind_case() == Value::kBoolValue) {
    contents.add_bool_contents(value.bool_value());
    return absl::OkStatus();
  }
  if (datatype == "BYTES" || datatype == "BOOL" || value.kind_case() != Value::kNumberValue) {
    return Invalid("data has an element that is not of datatype ", datatype);
  }
  list->add_number(value.number_value(), contents);
  return absl::OkStatus();
}

// The members in any order; elements last, because they are read by the datatype.
absl::Status ReadInput(const Struct& json, InputTensor& input) {
  for (const auto& [name, value] : json.fields()) {
    if (name == "name" && value.kind_case() == Value::kStringValue) {
      input.set_name(value.string_value());
    } else if (name == "datatype" && value.kind_case() == Value::kStringValue) {
      input.set_datatype(value.string_value());
    } else if (name == "shape" && value.kind_case() == Value::kListValue) {
      for (const Value& extent : value.list_value().values()) {
        input.add_shape(static_cast<int64_t>(extent.number_value()));
      }
    } else if (name != "data") {
      return Invalid("an input has name, datatype, shape and data, not this \"", name, "\"");
    }
  }
  const Value* const data = Find(json, "data");
  if (input.name().empty() || input.datatype().empty() || data == nullptr) {
    return Invalid("an input must have name, datatype, shape and data");
  }
  return ReadElements(*data, input.datatype(), *input.mutable_contents());
}

// Whole numbers become int64 parameters as long as a double holds them exactly.
absl::Status ReadParameters(const Struct& json, Parameters& parameters) {
  for (const auto& [name, value] : json.fields()) {
    const double number = value.number_value();
    if (value.kind_case() == Value::kBoolValue) {
      parameters[name].set_bool_param(value.bool_value());
    } else if (value.kind_case() == Value::kStringValue) {
      parameters[name].set_string_param(value.string_value());
    } else if (value.kind_case() != Value::kNumberValue) {
      return Invalid("parameters.", name, " is not a string, number, true or false");
    } else if (number == std::floor(number) && std::abs(number) < 0x1p53) {
      parameters[name].set_int64_param(static_cast<int64_t>(number));
    } else {
      parameters[name].set_double_param(number);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const ListValue*> ListMember(const Struct& json, const char* name) {
  const Value* const value = Find(json, name);
  if (value != nullptr && value->kind_case() != Value::kListValue) {
    return Invalid(name, " is not a list");
  }
  return value == nullptr ? &ListValue::default_instance() : &value->list_value();
}

// Of all lists only the one of the datatype has elements.
void WriteElements(const InputTensor& input, JsonWriter& json) {
  const InferTensorContents& contents = input.contents();
  for (const float value : contents.fp32_contents()) json.Float(value);
  for (const double value : contents.fp64_contents()) json.Double(value);
  for (const int32_t value : contents.int_contents()) json.Int(value);
  for (const int64_t value : contents.int64_contents()) json.Int(value);
  for (const uint32_t value : contents.uint_contents()) json.Uint(value);
  for (const uint64_t value : contents.uint64_contents()) json.Uint(value);
  for (const bool value : contents.bool_contents()) json.Bool(value);
  for (const std::string& value : contents.bytes_contents()) json.String(value);
}

void WriteParameter(const InferParameter& parameter, JsonWriter& json) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      json.Bool(parameter.bool_param());
      return;
    case InferParameter::kInt64Param:
      json.Int(parameter.int64_param());
      return;
    case InferParameter::kUint64Param:
      json.Uint(parameter.uint64_param());
      return;
    case InferParameter::kDoubleParam:
      json.Double(parameter.double_param());
      return;
    default:
      json.String(parameter.string_param());
  }
}

}  // namespace

absl::StatusOr<ModelInferRequest> InferRequestOf(const v1::DecodeRequest& request) {
  ModelInferRequest infer;
  infer.set_model_name(request.model());
  infer.set_model_version(request.version());
  if (request.sources().empty()) {
    return Invalid("there are no sources");
  }
  InputTensor& input = *infer.add_inputs();
  switch (request.sources(0).kind_case()) {
    case v1::Source::kText:
    case v1::Source::kPicture:
      BW_RETURN_IF_ERROR(AddTexts(request, input));
      break;
    case v1::Source::kIds:
      BW_RETURN_IF_ERROR(AddIds(request, input));
      break;
    case v1::Source::kFeatures:
      BW_RETURN_IF_ERROR(AddFeatures(request, input));
      break;
    default:
      return Invalid("decoder inputs are sent in the native protocol alone");
  }
  const v1::DecodeOptions& options = request.options();
  std::vector<const FieldDescriptor*> fields;
  options.GetReflection()->ListFields(options, &fields);
  for (const FieldDescriptor* field : fields) {
    BW_RETURN_IF_ERROR(SetParameter(options, *field, (*infer.mutable_parameters())[field->name()]));
  }
  return infer;
}

absl::StatusOr<ModelInferRequest> InferRequestOf(const Struct& json) {
  ModelInferRequest infer;
  for (const auto& [name, value] : json.fields()) {
    if (name != "inputs" && name != "outputs" && name != "parameters" && name != "id") {
      return Invalid("a request has inputs, outputs, parameters and id, not \"", name, "\"");
    }
  }
  BW_ASSIGN_OR_RETURN(const ListValue* inputs, ListMember(json, "inputs"));
  if (inputs->values().empty()) {
    return Invalid("inputs is empty");
  }
  for (const Value& input : inputs->values()) {
    BW_RETURN_IF_ERROR(ReadInput(input.struct_value(), *infer.add_inputs()));
  }
  BW_ASSIGN_OR_RETURN(const ListValue* outputs, ListMember(json, "outputs"));
  for (const Value& output : outputs->values()) {
    const Value* const name = Find(output.struct_value(), "name");
    if (name == nullptr) {
      return Invalid("an output has no name");
    }
    infer.add_outputs()->set_name(name->string_value());
  }
  if (const Value* const parameters = Find(json, "parameters"); parameters != nullptr) {
    BW_RETURN_IF_ERROR(ReadParameters(parameters->struct_value(), *infer.mutable_parameters()));
  }
  return infer;
}

std::string InferJson(const ModelInferRequest& request) {
  JsonWriter json;
  json.BeginObject().Key("inputs").BeginArray();
  for (const InputTensor& input : request.inputs()) {
    json.BeginObject().Key("name").String(input.name());
    json.Key("datatype").String(input.datatype());
    json.Key("shape").BeginArray();
    for (const int64_t extent : input.shape()) {
      json.Int(extent);
    }
    json.EndArray().Key("data").BeginArray();
    WriteElements(input, json);
    json.EndArray().EndObject();
  }
  json.EndArray();
  if (!request.outputs().empty()) {
    json.Key("outputs").BeginArray();
    for (const auto& output : request.outputs()) {
      json.BeginObject().Key("name").String(output.name()).EndObject();
    }
    json.EndArray();
  }
  if (!request.parameters().empty()) {
    json.Key("parameters").BeginObject();
    for (const auto& [name, parameter] : request.parameters()) {
      json.Key(name);
      WriteParameter(parameter, json);
    }
    json.EndObject();
  }
  return json.EndObject().text();
}

}  // namespace beamwright::client
