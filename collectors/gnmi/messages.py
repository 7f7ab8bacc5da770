"""The one door to the gNMI messages: two copies of gnmi.proto in one process do not get along."""

from gnmi_pb import gnmi_pb2 as gnmi
from gnmi_pb.gnmi_pb2_grpc import gNMIStub

__all__ = ["gNMIStub", "gnmi"]
