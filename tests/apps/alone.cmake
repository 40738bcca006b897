# Suites that compare how long things take, or that act while something lasts: ctest runs nothing beside them.
set_tests_properties(apps.PlanCalibrationAlone apps.TrainMeshFailuresAlone apps.TrainPeakAlone apps.TrainRestartAlone
                     apps.TrainSlowRankAlone apps.TrainTerminalAlone
                     PROPERTIES RUN_SERIAL TRUE)
set_tests_properties(apps.PlanCalibrationAlone PROPERTIES TIMEOUT 300)
