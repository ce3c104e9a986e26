"""PISM (paper 003): how much batch work on a machine slows the services beside it, and where to put it instead.

Proactive performance interference scoring and mitigation: batch tasks are classified by what they
use, machines described by how many instances of which category they run, and services' response times predicted from
that.
"""
