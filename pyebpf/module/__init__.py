"""Linking: maps, probes and subprograms of any front end become one `ModuleSpec`.

A front end gives bodies (`body.Body`). Nothing here knows the language that they were written in.
"""
